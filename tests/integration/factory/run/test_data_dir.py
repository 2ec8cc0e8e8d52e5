"""Private folders and files of the data dir."""

import stat
import sys
from pathlib import Path

import pytest

from gigafactory.factory.core.data_dir import (
    DataDir,
    make_private_folder,
    read_secret,
    write_secret,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_folder_of_the_data_dir_is_private(tmp_path: Path) -> None:
    data_dir = DataDir.under(tmp_path)
    data_dir.create()
    data_dir.create()
    folders = [data_dir.root, *data_dir.root.iterdir()]
    assert {mode(folder) for folder in folders} == {0o700}
    assert {"homes", "mirrors", "outbox", "worktrees"} <= {folder.name for folder in folders}


def test_make_private_folder_closes_an_open_folder(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    make_private_folder(folder)
    assert mode(folder) == 0o700


def test_secret_file_is_readable_by_its_user_only(tmp_path: Path) -> None:
    data_dir = DataDir.under(tmp_path)
    assert read_secret(data_dir.token_file) is None
    write_secret(data_dir.token_file, "first")
    write_secret(data_dir.token_file, "second")
    assert read_secret(data_dir.token_file) == "second"
    assert mode(data_dir.token_file) == 0o600
    assert [file.name for file in data_dir.root.iterdir()] == ["token"]


def test_reading_a_secret_file_closes_it_to_others(tmp_path: Path) -> None:
    file = tmp_path / "token"
    write_secret(file, "hush")
    file.chmod(0o644)
    assert read_secret(file) == "hush"
    assert mode(file) == 0o600


def test_failed_secret_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.mkdir()
    with pytest.raises(OSError, match="token"):
        write_secret(file, "hush")
    assert [each.name for each in tmp_path.iterdir()] == ["token"]
