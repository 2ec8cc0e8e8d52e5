"""The report of a garbage collection: lines and a summary."""

from gigafactory.factory.gc.report import GcItem, GcReport, kept_item, merge_reports, removed_item


def test_summary_counts_items_by_kind_and_freed_space() -> None:
    swept = (
        *(removed_item("worktree", str(n), "x", 70_000_000) for n in range(3)),
        removed_item("log", "run-1.log", "x"),
        removed_item("quarantine", "job", "x"),
        kept_item("branch", "aq/job/a", "x"),
        GcItem(kind="mirror", name="notes.git", did="packed", reason="x", bytes=500_000),
    )
    expected = "removed 3 worktrees, 1 log, 1 quarantined result, packed 1 mirror, 210 MB"
    assert GcReport(swept=swept).summary() == expected
    assert GcReport(swept=swept, dry_run=True).summary() == f"would have {expected}"


def test_report_without_changes_has_no_summary() -> None:
    assert GcReport(swept=(kept_item("home", "a", "x"),), dry_run=True).summary() == ""


def test_item_line_states_the_action_done_or_planned() -> None:
    one = removed_item("branch", "aq/job/a", "it is merged")
    assert str(one) == "removed branch aq/job/a: it is merged"
    assert one.describe(dry=True) == "would remove branch aq/job/a: it is merged"


def test_merged_reports_drop_duplicate_notes() -> None:
    assert merge_reports([GcReport(notes=("a", "b")), GcReport(notes=("b",))]).notes == ("a", "b")
