"""Artifact files of a run: which files match, and which may leave the machine."""

import hashlib
import os
from pathlib import Path

import pytest

from gigafactory.factory.run.artifact_files import (
    ArtifactRejected,
    CapturedFile,
    capture,
    find_artifacts,
)

SECRET = "correct-horse-battery"
MIB = 1 << 20


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name in (
        "report.html",
        "deep/report.html",
        "out/a.txt",
        "out/b.log",
        "out/sub/c.txt",
        "node_modules/x/report.html",
        ".git/config",
        ".aq/summary.md",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def taken(tree: Path, name: str, *, bytes_max: int = MIB) -> tuple[bytes, CapturedFile]:
    with capture(tree, name, (SECRET,), tree.parent, bytes_max=bytes_max) as file:
        data = b"".join(file.pieces())
        assert b"".join(file.pieces()) == data, "it can be sent again"
    assert (file.size, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    return data, file


@pytest.mark.parametrize(
    ("globs", "names"),
    [
        (["report.html"], ["report.html"]),
        (["./report.html"], ["report.html"]),
        (["deep/report.html"], ["deep/report.html"]),
        (["out"], ["out/a.txt", "out/b.log", "out/sub/c.txt"]),
        (["out/"], ["out/a.txt", "out/b.log", "out/sub/c.txt"]),
        (["out/*.txt"], ["out/a.txt"]),
        (["out/**/*.txt"], ["out/a.txt", "out/sub/c.txt"]),
        (["**/b.log", "*.html"], ["out/b.log", "report.html"]),
        ([".aq/summary.md"], [".aq/summary.md"]),
        ([".git", ".git/config", ".git/**"], []),
        (["nothing/here", "repor"], []),
    ],
)
def test_globs_match_files_from_the_top_of_the_worktree(
    tree: Path, globs: list[str], names: list[str]
) -> None:
    found = find_artifacts(tree, globs)
    assert list(found.names) == names
    assert found.skipped == ()


def test_glob_without_matches_is_reported_as_missing(tree: Path) -> None:
    assert find_artifacts(tree, ["report.html", "out/*.xml", "none"]).missing == (
        "out/*.xml",
        "none",
    )


def test_links_and_pipes_are_skipped_with_a_reason(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "passwd").write_text("root")
    (tree / "out" / "link").symlink_to(outside / "passwd")
    (tree / "out" / "folder").symlink_to(outside)
    os.mkfifo(tree / "out" / "pipe")
    found = find_artifacts(tree, ["out"])
    assert list(found.names) == ["out/a.txt", "out/b.log", "out/sub/c.txt"]
    assert [name for name, _ in found.skipped] == ["out/folder", "out/link", "out/pipe"]


def test_deceptive_file_names_are_skipped_with_a_reason(tree: Path) -> None:
    (tree / "out" / "a\nb").touch()
    (tree / "out" / "back\\slash").touch()
    os.close(os.open(os.fsencode(tree) + b"/out/\xff", os.O_CREAT | os.O_WRONLY))
    found = find_artifacts(tree, ["out"])
    assert list(found.names) == ["out/a.txt", "out/b.log", "out/sub/c.txt"]
    assert [name for name, _ in found.skipped] == ["out/\\xff", "out/a\nb", "out/back\\slash"]


def test_file_without_secrets_is_sent_unchanged(tree: Path) -> None:
    data = bytes(range(256)) * 3000
    (tree / "x.png").write_bytes(data)
    sent, file = taken(tree, "x.png")
    assert (sent, file.redacted, file.media_type) == (data, False, "image/png")


def test_secret_in_a_text_file_is_redacted(tree: Path) -> None:
    (tree / "out" / "env.txt").write_text(f"é TOKEN={SECRET}\n" + "x" * MIB + SECRET)
    sent, file = taken(tree, "out/env.txt", bytes_max=2 * MIB)
    assert SECRET.encode() not in sent
    assert sent.startswith("é TOKEN=[redacted]".encode())
    assert sent.endswith(b"[redacted]")
    assert file.redacted


def test_credential_pattern_in_a_text_file_is_redacted(tree: Path) -> None:
    (tree / "x.txt").write_text("key ghp_" + "a1B2" * 9 + "\n")
    sent, _ = taken(tree, "x.txt")
    assert sent == b"key [redacted]\n"


@pytest.mark.parametrize("before", [b"\0", b"\xff\xfe", b"PK\x03\x04\0"])
def test_binary_file_with_a_secret_is_rejected(tree: Path, before: bytes) -> None:
    (tree / "x.bin").write_bytes(before + SECRET.encode())
    with pytest.raises(ArtifactRejected, match="secret"):
        taken(tree, "x.bin")


def test_oversized_file_is_rejected(tree: Path) -> None:
    (tree / "x").write_bytes(b"x" * 100)
    assert taken(tree, "x", bytes_max=100)[1].size == 100
    with pytest.raises(ArtifactRejected, match="100 bytes; at most 99"):
        taken(tree, "x", bytes_max=99)


def test_captured_file_is_unaffected_by_later_changes(tree: Path) -> None:
    path = tree / "x"
    path.write_bytes(b"x" * 100)
    with capture(tree, "x", (), tree.parent, bytes_max=100) as file:
        path.write_bytes(b"y")
        assert b"".join(file.pieces()) == b"x" * 100
    assert sorted(each.name for each in tree.parent.iterdir()) == ["tree"], "the copy has no name"


@pytest.mark.parametrize("name", ["link", "folder/passwd", "pipe", "out", "none", "a/b/c"])
def test_links_pipes_and_folders_cannot_be_captured(tree: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "passwd").write_text("root")
    (tree / "link").symlink_to(outside / "passwd")
    (tree / "folder").symlink_to(outside)
    os.mkfifo(tree / "pipe")
    with pytest.raises(ArtifactRejected):
        taken(tree, name)


def test_unreadable_folder_does_not_stop_the_artifact_search(tree: Path) -> None:
    (tree / "node_modules").chmod(0)
    try:
        assert find_artifacts(tree, ["out/*.txt"]).names == ("out/a.txt",)
        assert find_artifacts(tree, ["**/b.log"]).names == ("out/b.log",)
    finally:
        (tree / "node_modules").chmod(0o755)
