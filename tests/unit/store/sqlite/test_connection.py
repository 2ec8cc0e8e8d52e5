"""Errors of a full disk are recognised."""

import errno
import sqlite3
from pathlib import Path

import pytest

from gigafactory.domain.errors import StoreDiskFull, Unavailable
from gigafactory.store.sqlite import connection
from gigafactory.store.sqlite.connection import create_file, map_db_errors


def test_a_full_disk_is_told_from_other_failures(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE big (value)")
        database.execute("PRAGMA max_page_count = 2")
        with pytest.raises(StoreDiskFull, match="the disk is full"), map_db_errors(path):
            database.execute("INSERT INTO big VALUES (zeroblob(100000))")
        with pytest.raises(Unavailable) as other, map_db_errors(path):
            database.execute("SELECT * FROM nothing")
        assert type(other.value) is Unavailable


def test_an_io_error_on_a_full_disk_is_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = sqlite3.OperationalError("disk I/O error")
    failed.sqlite_errorname = "SQLITE_IOERR_SHMSIZE"
    with pytest.raises(Unavailable, match="the disk failed"), map_db_errors(tmp_path / "fleet.db"):
        raise failed
    monkeypatch.setattr(connection, "FREE_MIN", 1 << 62)
    with pytest.raises(StoreDiskFull), map_db_errors(tmp_path / "fleet.db"):
        raise failed
    with pytest.raises(Unavailable), map_db_errors(tmp_path / "nowhere" / "fleet.db"):
        raise failed


def test_a_file_that_cannot_be_made_on_a_full_disk_is_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def touch(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "touch", touch)
    with pytest.raises(StoreDiskFull):
        create_file(tmp_path / "fleet.db")
