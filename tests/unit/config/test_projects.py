"""The projects folder: stored, detected, or replaced by a setting."""

from pathlib import Path

import pytest

from gigafactory.config.loading import load
from gigafactory.config.projects import (
    detect_projects,
    load_projects,
    save_projects,
    with_projects,
)
from gigafactory.config.settings import Config


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def config(home: Path, **more: str) -> Config:
    return load({"HOME": str(home), **more}, cwd=home).config


def checkout(folder: Path) -> Path:
    (folder / ".git").mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("made", "here", "found"),
    [
        ([], ".", "projects"),
        (["code", "src"], ".", "code"),
        (["src", "projects"], ".", "projects"),
        (["code/notes/.git/x", "projects"], "code/notes", "code"),
        (["code/notes/.git/x", "code/notes/deep/er"], "code/notes/deep/er", "code"),
        (["notes/.git/x"], "notes", "notes"),
        (["gigafactory/.git/x", "gigafactory/src/gigafactory"], "gigafactory", "projects"),
        ([".oh-my-zsh/.git/x"], ".oh-my-zsh", "projects"),
        ([".git/x", "notes"], "notes", "projects"),
    ],
)
def test_it_is_where_the_checkouts_of_a_person_are(
    home: Path, made: list[str], here: str, found: str
) -> None:
    for name in made:
        (home / name).mkdir(parents=True)
    assert detect_projects({"HOME": str(home)}, home / here) == home / found


def test_a_checkout_outside_of_the_home_is_not_the_projects_folder(
    home: Path, tmp_path: Path
) -> None:
    elsewhere = checkout(tmp_path / "srv" / "notes")
    assert detect_projects({"HOME": str(home)}, elsewhere) == home / "projects"


def test_folders_of_the_system_are_not_the_projects_folder_of_a_user_without_a_home() -> None:
    assert detect_projects({"HOME": "/"}, Path("/")) == Path("/projects")


def test_it_is_kept_in_the_data_folder(home: Path) -> None:
    found = config(home)
    assert load_projects(found) is None
    assert with_projects(found).factory.roots == ()
    save_projects(found, home / "code")
    assert load_projects(found) == home / "code"
    assert with_projects(found).factory.roots == (home / "code",)


def test_a_setting_replaces_it(home: Path) -> None:
    found = config(home, AQ_FACTORY_ROOTS="/srv/a,/srv/b")
    save_projects(found, home / "code")
    assert with_projects(found).factory.roots == (Path("/srv/a"), Path("/srv/b"))


def test_a_folder_queue_detects_it_without_keeping_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    queue = checkout(home / "work" / "queue")
    found = config(home)
    assert with_projects(found, near=queue).factory.roots == (home / "work",)
    assert load_projects(found) is None
