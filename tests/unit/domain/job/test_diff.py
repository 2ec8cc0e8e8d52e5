"""The diff of a job: truncated and counted."""

import msgspec
import pytest
from msgspec.structs import replace

from gigafactory.domain.errors import Invalid
from gigafactory.domain.job.diff import WorkDiff, read_diff, truncate

DIFF = WorkDiff(
    base="b" * 40, commit="c" * 40, files_changed=2, lines_added=3, lines_deleted=1, text="x\n"
)


def test_diff_summary_counts_files_and_lines() -> None:
    assert DIFF.summary == "2 files changed, 3 lines added, 1 deleted"
    one = replace(DIFF, files_changed=1, lines_added=1)
    assert one.summary == "1 file changed, 1 line added, 1 deleted"


def test_diff_round_trips_and_malformed_diff_is_rejected() -> None:
    assert read_diff(msgspec.json.encode(DIFF)) == DIFF
    for wrong in (
        b"",
        b"diff --git a/x b/x",
        b'{"base": 3}',
        b"[]",
        b'{"text": "\xff"}',
        b"[" * 100_000,
    ):
        with pytest.raises(Invalid, match="the diff"):
            read_diff(wrong)


def test_long_diff_is_cut_between_lines_with_a_notice() -> None:
    text = "diff --git a/a b/a\n+one\ndiff --git a/b b/b\n+two\n+three\n"
    assert truncate(text, 1000, "all") == text
    assert truncate(text, 30, "all") == (
        "diff --git a/a b/a\n+one\n\\ The diff is cut here, in file 1. In all: all.\n"
    )
    assert "+two\n\\ The diff is cut here, in file 2." in truncate(text, 50, "all")
    assert truncate("x" * 100, 10, "all") == "\\ The diff is cut here, in file 0. In all: all.\n"
