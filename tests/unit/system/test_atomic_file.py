"""Files are replaced whole or not at all, with the wanted mode and durability."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gigafactory.system.atomic_file import write_atomically


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the synced objects in order: `file` or `folder`."""
    calls: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return calls


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_file_is_replaced_and_no_temporary_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert names(tmp_path) == ["a"]


def test_pieces_are_written_in_order(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", iter([b"one", b"", b"two"]))
    assert (tmp_path / "a").read_bytes() == b"onetwo"


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"new"
        assert names(tmp_path)[0].startswith(".")
        raise ValueError("damaged")

    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(ValueError, match="damaged"):
        write_atomically(tmp_path / "a", pieces())
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        write_atomically(tmp_path / "none" / "a", b"x")
    assert names(tmp_path) == []


def test_failed_rename_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "a", b"x")
    assert names(tmp_path) == ["a"]


def test_mode_is_that_of_a_new_file_unless_given(tmp_path: Path) -> None:
    plain, written, secret = tmp_path / "plain", tmp_path / "written", tmp_path / "secret"
    plain.touch()
    secret.touch(mode=0o644)
    write_atomically(written, b"x")
    write_atomically(secret, b"x", mode=0o600)
    assert written.stat().st_mode == plain.stat().st_mode
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert (target.read_bytes(), link.read_bytes()) == (b"old", b"new")
    assert not link.is_symlink()


def test_file_and_folder_are_synced_only_when_requested(tmp_path: Path, synced: list[str]) -> None:
    write_atomically(tmp_path / "a", b"x")
    assert synced == []
    write_atomically(tmp_path / "a", b"x", fsync=True)
    assert synced == ["file"]
    write_atomically(tmp_path / "a", b"x", fsync=True, fsync_folder=True)
    assert synced == ["file", "file", "folder"]
