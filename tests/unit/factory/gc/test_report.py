"""What housekeeping tells, in lines and in a sum."""

from gigafactory.factory.gc.report import Sweep, Swept, gone, kept, together


def test_a_sum_counts_by_kind_and_names_the_room_that_was_won() -> None:
    swept = (
        *(gone("worktree", str(n), "x", 70_000_000) for n in range(3)),
        gone("log", "run-1.log", "x"),
        gone("quarantine", "job", "x"),
        kept("branch", "aq/job/a", "x"),
        Swept(kind="mirror", name="notes.git", did="packed", reason="x", bytes=500_000),
    )
    expected = "removed 3 worktrees, 1 log, 1 quarantined result, packed 1 mirror, 210 MB"
    assert Sweep(swept=swept).summed_up() == expected
    assert Sweep(swept=swept, dry_run=True).summed_up() == f"would have {expected}"


def test_nothing_done_is_no_sum() -> None:
    assert Sweep(swept=(kept("home", "a", "x"),), dry_run=True).summed_up() == ""


def test_a_line_says_what_was_done_or_would_be() -> None:
    one = gone("branch", "aq/job/a", "it is merged")
    assert str(one) == "removed branch aq/job/a: it is merged"
    assert one.line(dry=True) == "would remove branch aq/job/a: it is merged"


def test_words_that_several_rounds_have_in_common_are_said_once() -> None:
    assert together([Sweep(notes=("a", "b")), Sweep(notes=("b",))]).notes == ("a", "b")
