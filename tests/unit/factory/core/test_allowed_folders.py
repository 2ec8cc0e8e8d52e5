"""Folders of a machine that a job may use, and folders that it never may."""

import tempfile
from pathlib import Path

import pytest

from gigafactory.domain.errors import Forbidden
from gigafactory.factory.core.allowed_folders import (
    AllowedFolders,
    forbidden_folders,
    program_folders,
)
from gigafactory.factory.core.written_folders import WrittenFolders


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("projects/notes", "projects/.hidden/x", ".oh-my-zsh", "go/bin", "desk"):
        (tmp_path / "home" / name).mkdir(parents=True)
    return tmp_path / "home"


def allowed(home: Path, *roots: str, environ: dict[str, str] | None = None) -> AllowedFolders:
    data = home / "data"
    (data / "factory" / "homes" / "j1").mkdir(parents=True, exist_ok=True)
    return AllowedFolders(
        roots=tuple(home / root for root in roots),
        forbidden=forbidden_folders((data,), environ or {}, home),
        programs=program_folders(environ or {}),
        written=WrittenFolders(data),
    )


def test_a_folder_below_a_root_is_given_with_its_real_path(home: Path) -> None:
    (home / "projects" / "link").symlink_to(home / "projects" / "notes")
    folders = allowed(home, "projects")
    assert folders.resolve(str(home / "projects" / "link")) == home / "projects" / "notes"
    assert folders.resolve(f"{home}/projects/notes/") == home / "projects" / "notes"
    assert folders.resolve(f"{home}//projects/./notes") == home / "projects" / "notes"
    assert folders.resolve(f"{home}/projects") == home / "projects"


def test_a_root_may_itself_be_a_link(home: Path) -> None:
    (home / "work").symlink_to(home / "projects")
    folders = allowed(home, "work")
    assert folders.resolve(f"{home}/work/notes") == home / "projects" / "notes"


def test_the_message_says_what_is_allowed_and_how_to_allow_more(home: Path) -> None:
    with pytest.raises(Forbidden) as refused:
        allowed(home, "projects").resolve(str(home / "desk"))
    assert f"allowed: {home / 'projects'}." in refused.value.detail
    assert "factory.roots" in refused.value.detail
    assert "aq projects DIR" in refused.value.detail


@pytest.mark.parametrize(
    ("root", "path", "why"),
    [
        ("projects", "desk", "not below a folder that jobs may use"),
        ("projects", "projects-2", "not below"),
        ("projects", "Projects/notes", "not below"),
        ("projects", "projects/../desk", "not below"),
        ("projects", "projects/.hidden/x", "starts with a dot"),
        ("projects", "projects/notes/.git", "starts with a dot"),
        (".", ".oh-my-zsh", "starts with a dot"),
        (".", "go/bin", "which no job may use"),
        (".", "go/bin/tool", "which no job may use"),
        (".", "data", "which no job may use"),
        (".", "data/factory/homes/j1/evil.git", "which no job may use"),
        ("data", "data/factory/homes/j1", "which no job may use"),
    ],
)
def test_other_folders_are_refused(home: Path, root: str, path: str, why: str) -> None:
    with pytest.raises(Forbidden, match=why):
        allowed(home, root).resolve(f"{home}/{path}")


def test_a_link_leads_nowhere_else(home: Path) -> None:
    for name, target in {"a": ".oh-my-zsh", "b": "data", "c": "data/factory/homes/j1"}.items():
        (home / "projects" / name).symlink_to(home / target)
        with pytest.raises(Forbidden):
            allowed(home, "projects").resolve(str(home / "projects" / name))
        with pytest.raises(Forbidden):
            allowed(home, ".").resolve(str(home / "projects" / name))


def test_data_folders_of_other_factories_are_recognised(home: Path) -> None:
    other = home / "projects" / "fleet-data"
    (other / "factory" / "homes" / "j9").mkdir(parents=True)
    for name in ("mirrors", "worktrees"):
        (other / "factory" / name).mkdir()
    with pytest.raises(Forbidden, match="inside the data folder of a factory"):
        allowed(home, "projects").resolve(str(other / "factory" / "homes" / "j9"))
    (other / "admin.token").touch()
    with pytest.raises(Forbidden, match="inside the data folder of a factory"):
        allowed(home, "projects").resolve(str(other / "blobs"))


def test_temporary_files_of_runs_are_refused(home: Path) -> None:
    folders = AllowedFolders(roots=(Path(tempfile.gettempdir()),))
    with pytest.raises(Forbidden, match="belongs to a run"):
        folders.resolve(f"{tempfile.gettempdir()}/aq-0123456789abcdef/x.git")


def test_toolchains_named_by_variables_and_folders_on_the_path_are_refused(home: Path) -> None:
    for name in ("sdk/rust", "tools"):
        (home / "projects" / name).mkdir(parents=True)
    environ = {
        "CARGO_HOME": str(home / "projects" / "sdk"),
        "PATH": f"relative:{home}/projects/tools:",
    }
    for name in ("sdk/rust", "tools"):
        with pytest.raises(Forbidden, match="which no job may use"):
            allowed(home, "projects", environ=environ).resolve(str(home / "projects" / name))


def test_no_repo_is_taken_from_a_folder_in_which_a_job_worked(home: Path) -> None:
    folders = allowed(home, "projects")
    assert folders.written is not None
    notes = home / "projects" / "notes"
    assert folders.resolve_repo(str(notes)) == notes
    folders.written.add(notes)
    folders.written.add(notes)
    assert folders.written.file.read_text().count("\n") == 1
    for path in (notes, notes / "inside"):
        with pytest.raises(Forbidden, match=r"may have made this repo; .*written-folders"):
            folders.resolve_repo(str(path))
        assert folders.resolve(str(path)) == path, "a job may still work there"
    assert folders.resolve_repo(str(home / "projects" / "notes-2")).name == "notes-2"


def test_no_repo_is_taken_from_inside_of_a_checkout(home: Path) -> None:
    notes = home / "projects" / "notes"
    (notes / ".git").mkdir()
    shipped = notes / "evil.git"
    shipped.mkdir()
    folders = allowed(home, "projects")
    assert folders.resolve_repo(str(notes)) == notes
    with pytest.raises(Forbidden, match=r"inside the checkout .*notes, into which jobs"):
        folders.resolve_repo(str(shipped))
    (home / ".git").mkdir()
    assert folders.resolve_repo(str(notes)) == notes, "what is above the root does not count"


def bare_repo(path: Path) -> Path:
    for part in ("hooks", "objects/info", "refs/heads"):
        (path / part).mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/main\n")
    return path


@pytest.mark.parametrize("inside", ["", "hooks", "objects/info", "refs/heads"])
def test_no_job_works_in_place_in_a_git_folder(home: Path, inside: str) -> None:
    bare = bare_repo(home / "projects" / "notes.git")
    folders = allowed(home, "projects")
    assert folders.resolve_repo(str(bare)) == bare
    with pytest.raises(Forbidden, match=r"inside the git folder .*notes\.git"):
        folders.resolve_in_place(str(bare / inside))
    (bare / "evil").mkdir()
    with pytest.raises(Forbidden, match="inside the checkout"):
        folders.resolve_repo(str(bare / "evil"))


def test_no_job_works_in_place_above_a_program_that_the_factory_starts(home: Path) -> None:
    notes = home / "projects" / "notes"
    (notes / "venv" / "bin").mkdir(parents=True)
    environ = {"PATH": f".::{notes}/venv/bin:{home}/missing"}
    folders = allowed(home, "projects", environ=environ)
    assert folders.resolve(str(notes)) == notes
    for path in (notes, notes.parent):
        with pytest.raises(Forbidden, match=r"contains .*bin, from which this factory starts"):
            folders.resolve_in_place(str(path))
    assert allowed(home, "projects").resolve_in_place(str(notes)) == notes


def test_runs_do_not_work_above_or_below_each_other(home: Path) -> None:
    written = WrittenFolders(home)
    desk = home / "desk"
    assert written.occupy(desk)
    assert not written.occupy(desk)
    assert not written.occupy(desk / "below")
    assert not written.occupy(home)
    assert written.occupy(home / "desk-2")
    written.leave(desk)
    written.leave(desk)
    assert written.occupy(desk / "below")
