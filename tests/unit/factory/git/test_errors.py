"""Parsing of git's output, and the commit messages that we write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.job.diff import Change, FileChange
from gigafactory.factory.git.commits import parse_trailers, run_trailers, with_trailers
from gigafactory.factory.git.diff import parse_diff
from gigafactory.factory.git.errors import (
    DiskFull,
    GitFailed,
    GitNotFound,
    PushDenied,
    RemoteForbidden,
    RemoteUnavailable,
    RepoNotFound,
    error_from_output,
)
from gigafactory.factory.git.safe_copy import is_git_internal


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("fatal: unable to access 'https://h/x/': Could not resolve host: h", RemoteUnavailable),
        (
            "fatal: unable to access 'https://h/x/': Failed to connect to h port 443",
            RemoteUnavailable,
        ),
        ("ssh: connect to host h port 22: Connection refused", RemoteUnavailable),
        ("fatal: the remote end hung up unexpectedly", RemoteUnavailable),
        ("error: RPC failed; HTTP 502\nfatal: early EOF", RemoteUnavailable),
        ("fatal: unable to access 'x': The requested URL returned error: 503", RemoteUnavailable),
        ("fatal: Authentication failed for 'https://h/x/'", RemoteForbidden),
        (
            "fatal: could not read Username for 'https://h': terminal prompts disabled",
            RemoteForbidden,
        ),
        (
            "git@h: Permission denied (publickey).\nfatal: Could not read from remote",
            RemoteForbidden,
        ),
        ("fatal: unable to access 'x': The requested URL returned error: 403", RemoteForbidden),
        ("fatal: '/x' does not appear to be a git repository", RepoNotFound),
        ("remote: Not Found\nfatal: repository 'https://h/x/' not found", RepoNotFound),
        ("fatal: couldn't find remote ref refs/heads/x", GitNotFound),
        (" ! [rejected] a -> b (stale info)", PushDenied),
        (" ! [remote rejected] a -> b (pre-receive hook declined)", PushDenied),
        ("fatal: write error: No space left on device", DiskFull),
        ("fatal: sha1 file 'index.lock' write error. Out of diskspace", DiskFull),
        ("fatal: something else", GitFailed),
        ("", GitFailed),
    ],
)
def test_git_output_is_classified_by_its_last_lines(words: str, kind: type[GitFailed]) -> None:
    found = error_from_output(("fetch", "x"), 128, words)
    assert type(found) is kind
    assert (found.command, found.exit_code) == (("fetch", "x"), 128)
    assert found.detail


def test_trailers_are_added_to_existing_ones() -> None:
    text = with_trailers("Fix\n\nCo-authored-by: a <a@example.com>", {"Aq-Job": "j"})
    assert text == "Fix\n\nCo-authored-by: a <a@example.com>\nAq-Job: j\n"
    assert with_trailers("Fix: it", {"Aq-Job": "j"}) == "Fix: it\n\nAq-Job: j\n"
    assert with_trailers("Fix", {}) == "Fix\n"
    assert with_trailers(" \n", {"Aq-Job": "j"}) == "Work by an agent\n\nAq-Job: j\n"


@given(st.text(max_size=300), st.text(max_size=50))
def test_message_cannot_forge_the_trailers_of_a_run(message: str, forged: str) -> None:
    trailers = run_trailers(job="job", run="job.1", engine=None, epoch=3)
    attempts = (message, f"{message}\n\nAq-Job: {forged}", f"x\n aq-run : {forged}\n{message}")
    for attempt in attempts:
        assert parse_trailers(with_trailers(attempt, trailers)) == trailers


def test_raw_diff_listing_is_parsed() -> None:
    listing = (
        b":100644 100644 aaa bbb M\0a\tb.txt\0:100644 100644 aaa aaa R100\0old\0new\0"
        b":000000 100644 000 ccc A\0caf\xe9\0"
        b"1\t2\ta\tb.txt\x000\t0\t\0old\0new\0-\t-\tcaf\xe9\0"
    )
    diff = parse_diff(listing)
    assert diff.files == (
        FileChange(path="a\tb.txt", change=Change.MODIFIED, added=1, deleted=2),
        FileChange(path="caf\\xe9", change=Change.ADDED, binary=True),
        FileChange(path="new", change=Change.RENAMED, old_path="old"),
    )
    assert diff.paths == ("a\tb.txt", "caf\\xe9", "new", "old")
    assert parse_diff(b"").files == ()


@pytest.mark.parametrize(
    "name", [".git", "x/.GIT/y", ".git. ", "git~1", "GIT~2", ".g\u200cit", ".git::$INDEX", "a/.git"]
)
def test_names_that_a_file_system_may_treat_as_git_internal_are_detected(name: str) -> None:
    assert is_git_internal(name.encode())


@pytest.mark.parametrize("name", [".gitignore", ".github/x", "git", "x.git", "a.git/b", ".gitx"])
def test_names_that_only_resemble_git_internals_are_allowed(name: str) -> None:
    assert not is_git_internal(name.encode())
