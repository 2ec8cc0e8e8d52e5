"""The processes of a run, found in a process table."""

import pytest

from gigafactory.factory.process.lines import LineSplitter
from gigafactory.factory.process.orphans import find_orphans, new_mark, select_processes, with_mark
from gigafactory.factory.process.process_table import Process, has_mark, parse_ps, parse_stat

MARK = "0123456789abcdef0123456789abcdef"
OTHER = "f" * 32


def a_process(pid: int, parent: int, session: int = 1, *, has_mark: bool = False) -> Process:
    return Process(
        pid=pid,
        parent=parent,
        group=session,
        session=session,
        started=f"{pid}0",
        command=f"p{pid}",
        marked=has_mark,
    )


def pids(found: list[Process]) -> list[int]:
    return [each.pid for each in found]


def test_marked_process_belongs_to_the_run_in_any_session() -> None:
    table = [a_process(1, 0), a_process(10, 1, 10, has_mark=True), a_process(11, 1, 11)]
    assert pids(select_processes(table, None)) == [10]


def test_descendants_without_the_mark_belong_to_the_run() -> None:
    table = [a_process(12, 11, 12), a_process(11, 10, 11), a_process(10, 1, 10, has_mark=True)]
    assert pids(select_processes(table, None)) == [12, 11, 10]


def test_processes_of_the_run_session_belong_to_the_run() -> None:
    table = [a_process(21, 1, 20), a_process(22, 21, 22), a_process(31, 1, 30)]
    assert pids(select_processes(table, 20)) == [21, 22]


def test_spared_processes_and_their_descendants_are_excluded() -> None:
    table = [a_process(5, 1, has_mark=True), a_process(6, 5), a_process(7, 1, 7, has_mark=True)]
    assert pids(select_processes(table, None, spare_pids={5})) == [7]


def test_mark_matches_only_whole_values_of_its_variable() -> None:
    assert has_mark(f"A=1\0AQ_RUN={MARK}\0".encode(), MARK)
    assert has_mark(f"AQ_RUN={OTHER}:{MARK}".encode(), MARK)
    assert not has_mark(f"AQ_RUN={MARK}x\0".encode(), MARK)
    assert not has_mark(f"X_AQ_RUN={MARK}\0NOTE={MARK}\0".encode(), MARK)
    assert not has_mark(b"AQ_RUN=\0", "")


def test_stat_with_spaces_and_brackets_in_the_command_is_parsed() -> None:
    rest = "0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 0 0"
    stat = parse_stat(f"42 (a) Z (b) S 7 8 9 {rest}\n".encode())
    assert (stat.parent, stat.group, stat.session, stat.started) == (7, 8, 9, "98765")
    assert not stat.dead
    assert parse_stat(f"42 (x) Z 7 8 9 {rest}\n".encode()).dead


def test_ps_output_is_parsed_where_proc_is_missing() -> None:
    listing = (
        "   10     1    10 S    Mon Nov 16 04:42:38 2026     /bin/sh -c sleep 600\n"
        "   11    10    10 Ss   Mon Nov 16 04:42:39 2026     sleep 600\n"
        "   12     1    12 Z    Mon Nov 16 04:42:39 2026     (sleep)\n"
    )
    environments = f"   10 /bin/sh -c sleep 600 PATH=/bin AQ_RUN={MARK} A=b\n   11 sleep 600\n"
    first, second = parse_ps(listing, environments, MARK)
    assert (first.pid, first.parent, first.group, first.marked) == (10, 1, 10, True)
    assert (first.started, first.command) == ("Mon Nov 16 04:42:38 2026", "/bin/sh -c sleep 600")
    assert (second.pid, second.marked) == (11, False)
    assert pids(select_processes([first, second], None)) == [10, 11]


def test_nested_run_carries_both_marks() -> None:
    env = with_mark({"A": "1"}, MARK, {"AQ_RUN": OTHER})
    assert env == {"A": "1", "AQ_RUN": f"{MARK}:{OTHER}"}
    assert has_mark(f"AQ_RUN={env['AQ_RUN']}".encode(), OTHER)


@pytest.mark.parametrize("mark", ["", "short", "a b c d e f g h i j", "x:" * 20])
def test_ambiguous_mark_is_rejected(mark: str) -> None:
    with pytest.raises(ValueError, match="at least 16 letters and digits"):
        find_orphans(mark)


def test_new_marks_are_unique() -> None:
    assert new_mark() != new_mark()


def test_lines_are_returned_when_complete_whatever_the_pieces() -> None:
    lines = LineSplitter()
    assert lines.feed(b"one\ntw") == ["one"]
    assert lines.feed(b"o\r\n\nrest") == ["two", ""]
    assert (lines.finish(), lines.finish(), lines.cut) == (["rest"], [], 0)


def test_long_line_is_cut_to_its_beginning() -> None:
    lines = LineSplitter(bytes_max=4)
    assert lines.feed(b"abc") == []
    assert lines.feed(b"defgh") == []
    assert lines.feed(b"ijk\nlmno\n") == ["abcd", "lmno"]
    assert lines.cut == 1
