"""The text of a pull request: its source, its redaction, and its limits."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.factory.forges.forge import PullRequestText
from gigafactory.factory.forges.pull_request_text import (
    BODY_CHARS_MAX,
    TITLE_CHARS_MAX,
    build_text,
    marker,
    read_agent_text,
)


def test_title_is_the_first_line_of_the_agent_text() -> None:
    text = build_text("\n# Greets  people\n\nIt says hello.\n", title="job", body="asked")
    assert text == PullRequestText("Greets people", "It says hello.")


@pytest.mark.parametrize("nothing", [None, "", " \n\n", "<!-- aq:job-1:1 -->\n"])
def test_job_title_and_body_are_used_without_agent_text(nothing: str | None) -> None:
    assert build_text(nothing, title="Say hello", body="Please.\n") == PullRequestText(
        "Say hello", "Please."
    )


def test_job_without_any_text_gets_a_default_title() -> None:
    assert build_text(None, title="", body="") == PullRequestText("Work by an agent", "")


def test_secrets_are_redacted_in_title_and_body() -> None:
    secret = "correct-horse-battery-staple"
    text = build_text(f"Uses {secret}\nwith {secret}", title="", body="", secrets=[secret])
    assert secret not in text.title + text.body


@given(st.text(), st.text())
def test_markers_are_removed_and_lengths_are_limited(title: str, body: str) -> None:
    ours = marker("job-1", "job-1.2")
    text = build_text(f"{title}\n{ours}{body}{ours}", title=f"{ours}x", body=body + ours)
    assert ours not in text.title + text.body
    assert 0 < len(text.title) <= TITLE_CHARS_MAX
    assert len(text.body) <= BODY_CHARS_MAX
    assert "\n" not in text.title


def test_long_title_and_body_are_cut() -> None:
    text = build_text("t" * 1000 + "\n" + "b" * 100_000, title="", body="")
    assert (len(text.title), len(text.body)) == (TITLE_CHARS_MAX, BODY_CHARS_MAX)
    assert text.body.endswith("…")


def test_agent_text_is_read_from_its_file(tmp_path: Path) -> None:
    assert read_agent_text(tmp_path) is None
    (tmp_path / ".aq").mkdir()
    (tmp_path / ".aq" / "pr.md").write_bytes(b"Hello\xff\n")
    assert read_agent_text(tmp_path) == "Hello\ufffd\n"


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes are POSIX here")
def test_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "pr.md").write_text("secret")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / ".aq").symlink_to(outside)
    assert read_agent_text(tmp_path / "one") is None
    (tmp_path / "two" / ".aq").mkdir(parents=True)
    (tmp_path / "two" / ".aq" / "pr.md").symlink_to(outside / "pr.md")
    assert read_agent_text(tmp_path / "two") is None
    (tmp_path / "three" / ".aq").mkdir(parents=True)
    os.mkfifo(tmp_path / "three" / ".aq" / "pr.md")
    assert read_agent_text(tmp_path / "three") is None
