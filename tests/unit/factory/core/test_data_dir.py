"""The data folder of a factory: file names are safe and reversible."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.factory.core.data_dir import (
    NAME_BYTES_MAX,
    DataDir,
    folder_name,
    parse_folder_name,
    temp_folder,
)

PLACES = DataDir.under(Path("/data"))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=16))
def test_folder_name_of_any_job_id_is_safe_and_parses_back(job_id: str) -> None:
    name = folder_name(job_id)
    assert parse_folder_name(name) == job_id
    assert name not in {".", ".."}
    assert not set(name) & set("/\\:\0 \n")


@given(st.text(max_size=20))
def test_foreign_folder_name_belongs_to_no_job(name: str) -> None:
    job_id = parse_folder_name(name)
    assert job_id is None or folder_name(job_id) == name


def test_ordinary_id_is_its_own_folder_name() -> None:
    assert folder_name("01jqx5w0v8n6m2k4h9r7t3y1bd") == "01jqx5w0v8n6m2k4h9r7t3y1bd"
    assert parse_folder_name(".DS_Store") is None


@pytest.mark.parametrize("job_id", ["", "x" * (NAME_BYTES_MAX + 1), "é" * 50])
def test_empty_or_oversized_id_is_rejected(job_id: str) -> None:
    with pytest.raises(ValueError, match="an id of 1 to 200 safe characters"):
        folder_name(job_id)


def test_all_paths_are_below_the_data_folder() -> None:
    assert PLACES.worktree("a/../b") == Path("/data/factory/worktrees/a%2F..%2Fb")
    assert PLACES.home("job-1") == Path("/data/factory/homes/job-1")
    assert PLACES.log_file("run-1") == Path("/data/factory/logs/run-1.log")
    assert PLACES.quarantine_folder("job-1", 3) == Path("/data/factory/quarantine/job-1/3")
    assert PLACES.token_file == Path("/data/factory/token")


def test_temp_folder_path_is_short_and_hides_the_mark() -> None:
    mark = "0123456789abcdef0123456789abcdef"
    folder = temp_folder(mark)
    assert folder != temp_folder("f" * 32)
    assert folder.parent == Path(tempfile.gettempdir()).resolve()
    assert mark[:4] not in folder.name
    assert len(folder.name) < 20, "a socket in it must have a path that fits"


def test_repos_of_one_name_have_separate_mirrors() -> None:
    ours = PLACES.mirror("https://git.example/ours/notes.git")
    theirs = PLACES.mirror("https://git.example/theirs/notes.git")
    assert ours != theirs
    assert ours.parent == PLACES.mirrors
    assert ours.name.startswith("notes-")
    assert PLACES.mirror("/srv/-…-/") != PLACES.mirror("/srv/…")
