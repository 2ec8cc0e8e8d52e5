"""Engine homes contain the prepared files, and no link leads out of them."""

import os
from pathlib import Path

import pytest

from gigafactory.factory.run import engine_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def given(tmp_path: Path) -> Path:
    made = tmp_path / "given"
    (made / ".codex").mkdir(parents=True)
    (made / ".codex" / "config.toml").write_text("first")
    return made


def older(path: Path) -> None:
    result = path.stat()
    os.utime(path, ns=(result.st_atime_ns, result.st_mtime_ns - 10**9))


def test_prepared_files_are_copied_privately_into_the_home(home: Path, given: Path) -> None:
    engine_home.copy_prepared_files(home, given)
    brought = home / ".codex" / "config.toml"
    assert brought.read_text() == "first"
    assert brought.stat().st_mode & 0o077 == 0


def test_missing_prepared_folder_leaves_the_home_empty(home: Path, tmp_path: Path) -> None:
    engine_home.copy_prepared_files(home, tmp_path / "nothing")
    assert list(home.iterdir()) == []


def test_newer_of_engine_file_and_prepared_file_wins(home: Path, given: Path) -> None:
    prepared, brought = given / ".codex" / "config.toml", home / ".codex" / "config.toml"
    older(prepared)
    engine_home.copy_prepared_files(home, given)
    brought.write_text("by the engine")
    engine_home.copy_prepared_files(home, given)
    assert brought.read_text() == "by the engine"
    older(brought)
    prepared.write_text("second")
    engine_home.copy_prepared_files(home, given)
    assert brought.read_text() == "second"


def test_symlink_left_by_an_engine_is_replaced_and_not_followed(
    home: Path, given: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").symlink_to(precious)
    (home / "persona.md").symlink_to(precious)
    engine_home.copy_prepared_files(home, given)
    engine_home.write_files(home, {"persona.md": b"be kind"})
    assert precious.read_text() == "mine"
    assert (home / ".codex" / "config.toml").read_text() == "first"
    assert (home / "persona.md").read_text() == "be kind"


def test_symlinked_folder_that_leaves_the_home_is_rejected(
    home: Path, given: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (home / ".codex").symlink_to(elsewhere)
    with pytest.raises(engine_home.EngineHomeInvalid, match="requeue"):
        engine_home.copy_prepared_files(home, given)
    with pytest.raises(engine_home.EngineHomeInvalid):
        engine_home.write_files(home, {".codex/deeper/x": b""})
    assert list(elsewhere.iterdir()) == []


def test_side_files_are_the_newest_within_the_size_limit(home: Path) -> None:
    for number in range(engine_home.SIDE_FILES_MAX + 2):
        file = home / f"session-{number}.jsonl"
        file.write_text(str(number))
        os.utime(file, (number, number))
    os.truncate(home / "session-5.jsonl", engine_home.SIDE_FILE_BYTES_MAX + 1)
    os.utime(home / "session-5.jsonl", (5, 5))
    found = engine_home.read_side_files(home, ("session-*.jsonl", "nothing/*"))
    assert len(found) == engine_home.SIDE_FILES_MAX - 1
    assert found["session-2.jsonl"] == b"2"


def test_side_files_are_not_read_through_links_or_from_pipes(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "session-1.jsonl").write_text("not the engine's")
    (home / "linked").symlink_to(outside)
    (home / "session-2.jsonl").symlink_to(outside / "session-1.jsonl")
    os.mkfifo(home / "session-3.jsonl")
    (home / "real").mkdir()
    (home / "real" / "session-4.jsonl").write_text("mine")
    found = engine_home.read_side_files(home, ("*/session-*.jsonl", "session-*.jsonl"))
    assert found == {"real/session-4.jsonl": b"mine"}


def test_a_home_full_of_folders_is_not_searched_for_ever(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_home, "ENTRIES_MAX", 10)
    for number in range(30):
        (home / f"{number}.jsonl").write_text("x")
    assert len(engine_home.read_side_files(home, ("*.jsonl",))) <= 10
