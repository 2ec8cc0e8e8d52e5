"""Repos with planted programs: the factory's git runs none of them.

Plants are tested together, after a check that plain git runs some of them, and one by one.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from gigafactory.domain.errors import Forbidden
from gigafactory.factory.core.allowed_folders import AllowedFolders
from gigafactory.factory.git.errors import GitFailed, PushDenied, RepoNotFound
from gigafactory.factory.git.git import Git
from gigafactory.factory.git.local_repo import find_repo
from gigafactory.factory.git.merge import Merged, merge
from gigafactory.factory.git.mirror import Mirror, Mirrors
from gigafactory.factory.git.push import (
    RefUpdate,
    delete_branches,
    push,
    push_atomically,
    update_index,
)
from gigafactory.factory.git.remote_url import AllowedRemotes, parse_address
from gigafactory.factory.git.worktree import Worktree
from tests.support.factory.git_programs import ATTRIBUTES, HOOKS, SETTINGS, SWITCHES
from tests.support.factory.git_repo import plain_git, write

PLANTS = (*(f"hook:{name}" for name in HOOKS), *(f"setting:{name}" for name in SETTINGS))


class Planted:
    """A person's local repo, bare or checked out, that can contain plants."""

    def __init__(self, folder: Path, *, bare: bool) -> None:
        self.folder = folder
        self.path = folder / "projects" / ("notes.git" if bare else "notes")
        self.trace = folder / "was-run"
        self.program = folder / "program.sh"
        self.program.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{self.trace}'\n")
        self.program.chmod(0o755)
        made = folder / "made"
        made.mkdir(parents=True)
        plain_git(made, "init", "-q", "-b", "main")
        write(made, {"a.txt": "one\n", ".gitattributes": ATTRIBUTES})
        plain_git(made, "add", "-A")
        plain_git(made, "commit", "-q", "-m", "Begin")
        plain_git(folder, "clone", "-q", *(["--bare"] if bare else []), str(made), str(self.path))
        self.git_dir = self.path if bare else self.path / ".git"
        self.config = self.git_dir / "config"

    def plant(self, *plants: str) -> None:
        """Plant hooks and settings, as a job with write access to the whole repo could."""
        for plant in plants:
            kind, _, name = plant.partition(":")
            if kind == "hook":
                for hooks in (self.git_dir / "hooks", self.folder / "more-hooks"):
                    hooks.mkdir(exist_ok=True)
                    hook = hooks / name
                    hook.unlink(missing_ok=True)
                    hook.symlink_to(self.program)
            else:
                section, _, key = name.rpartition(".")
                section, _, inner = section.partition(".")
                header = f'[{section} "{inner}"]' if inner else f"[{section}]"
                self.append(f"{header}\n\t{key} = {self.program}\n")
        # Git also reads included files and the configuration of the worktree.
        more = self.folder / "more.config"
        more.write_text(
            f"[core]\n\thooksPath = {self.folder / 'more-hooks'}\n{SWITCHES}"
            f'[url "ext::{self.program} "]\n\tinsteadOf = /\n\tpushInsteadOf = /\n'
        )
        self.append(f"[include]\n\tpath = {more}\n")
        (self.git_dir / "config.worktree").write_text(self.config.read_text())

    def append(self, text: str) -> None:
        with self.config.open("a") as file:
            file.write(text)

    async def mirror(self) -> Mirror:
        allowed = AllowedRemotes(folders=AllowedFolders(roots=(self.folder / "projects",)))
        address = parse_address(str(self.path), allowed)
        return await Mirrors(self.folder / "mirrors", Git(local=True)).open(address)

    async def is_served(self, name: str) -> None:
        """Run all git operations of a run and a ship on the repo."""
        mirror = await self.mirror()
        base = await mirror.resolve(await mirror.default_branch())
        worktree = await Worktree.add(mirror, self.folder / f"work-{name}", base)
        write(worktree.path, {f"{name}.txt": "two\n", "a.txt": "changed\n"})
        commit = (await worktree.snapshot(base)).commit
        assert commit is not None
        wip, job = f"aq/wip/{name}/1", f"aq/job/{name}"
        await push(mirror, commit, wip, expect=None)
        await push_atomically(mirror, RefUpdate(job, commit, None), RefUpdate(wip, base, commit))
        await worktree.remove()
        assert isinstance(await merge(mirror, "main", commit, "merge", "Ship it\n"), Merged)
        assert await delete_branches(mirror, {wip: base}) == {}
        await mirror.fetch()
        repo = mirror.local_repo()
        if repo.work_tree is not None:
            assert (repo.work_tree / f"{name}.txt").read_text() == "two\n"
            await update_index(mirror, repo, await mirror.resolve("main"))


@pytest.mark.parametrize("bare", [True, False], ids=["bare", "checkout"])
async def test_nothing_that_is_planted_in_a_local_remote_runs(tmp_path: Path, bare: bool) -> None:  # noqa: FBT001
    planted = Planted(tmp_path, bare=bare)
    planted.plant(*PLANTS)
    assert git_that_trusts_runs_it(planted), "a git that trusts runs some of it"
    planted.trace.unlink()
    await planted.is_served("all")
    assert not planted.trace.exists(), planted.trace.read_text()


@pytest.mark.parametrize("plant", PLANTS)
async def test_no_single_plant_in_a_checkout_runs(tmp_path: Path, plant: str) -> None:
    planted = Planted(tmp_path, bare=False)
    planted.plant(plant)
    await planted.is_served("one")
    assert not planted.trace.exists(), planted.trace.read_text()


def git_that_trusts_runs_it(planted: Planted) -> bool:
    clone = planted.folder / "trusting"
    plain_git(planted.folder, "clone", "-q", str(planted.folder / "made"), str(clone))
    write(clone, {"b.txt": "by a person\n"})
    plain_git(clone, "add", "-A")
    plain_git(clone, "commit", "-q", "-m", "More")
    plain_git(clone, "push", "-q", str(planted.path), "HEAD:refs/heads/other", check=False)
    return planted.trace.exists()


async def test_a_worktree_and_its_git_folder_are_planted_in_vain(tmp_path: Path) -> None:
    planted = Planted(tmp_path, bare=True)
    mirror = await planted.mirror()
    base = await mirror.resolve("main")
    worktree = await Worktree.add(mirror, tmp_path / "work", base)
    inside = Planted.__new__(Planted)
    inside.__dict__ |= planted.__dict__ | {
        "path": worktree.path,
        "git_dir": worktree.git_dir,
        "config": worktree.git_dir / "config",
    }
    inside.plant(*PLANTS)
    write(worktree.path, {"new.txt": "new\n", "a.txt": "changed\n"})
    plain_git(worktree.path, "status", check=False)
    assert planted.trace.exists(), "a git that trusts runs it"
    planted.trace.unlink()
    commit = (await worktree.snapshot(base)).commit
    assert commit is not None
    await worktree.changes(base)
    await push(mirror, commit, "aq/wip/j/1", expect=None)
    await worktree.remove()
    assert not planted.trace.exists()


async def test_the_checkout_is_updated_as_git_would_and_kept_when_a_person_changed_it(
    tmp_path: Path,
) -> None:
    planted = Planted(tmp_path, bare=False)
    await planted.is_served("first")
    assert plain_git(planted.path, "status", "--porcelain") == ""
    for changed in ("unstaged", "staged"):
        write(planted.path, {"a.txt": f"{changed}\n"})
        if changed == "staged":
            plain_git(planted.path, "add", "a.txt")
        before = plain_git(planted.path, "rev-parse", "main")
        with pytest.raises(PushDenied, match=r"not committed|staged changes"):
            await planted.is_served(f"while-{changed}")
        assert plain_git(planted.path, "rev-parse", "main") == before
        assert (planted.path / "a.txt").read_text() == f"{changed}\n"
    plain_git(planted.path, "reset", "-q", "--hard")
    write(planted.path, {"third.txt": "untracked, by a person\n"})
    with pytest.raises(PushDenied, match="cannot be updated"):
        await planted.is_served("third")
    assert (planted.path / "third.txt").read_text() == "untracked, by a person\n"


async def test_a_branch_that_another_worktree_shows_is_not_moved_under_it(tmp_path: Path) -> None:
    planted = Planted(tmp_path, bare=False)
    plain_git(planted.path, "checkout", "-q", "-b", "desk")
    plain_git(planted.path, "worktree", "add", "-q", str(tmp_path / "projects" / "wt"), "main")
    with pytest.raises(PushDenied, match="checked out in another worktree"):
        await planted.is_served("x")
    planted.path = tmp_path / "projects" / "wt"
    await planted.is_served("y")
    assert plain_git(planted.path, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    "entry",
    [
        "refs",
        "refs/heads",
        "refs/heads/main",
        "logs/refs/heads/main",
        "objects",
        "objects/pack",
        "objects/info",
        "packed-refs",
        "index",
        "logs",
    ],
)
async def test_a_repo_whose_parts_are_links_is_refused(tmp_path: Path, entry: str) -> None:
    planted = Planted(tmp_path, bare=False)
    if entry == "packed-refs":
        plain_git(planted.path, "pack-refs", "--all")
    elsewhere = tmp_path / "elsewhere"
    (planted.git_dir / entry).rename(elsewhere)
    (planted.git_dir / entry).symlink_to(elsewhere)
    with pytest.raises(RepoNotFound, match="is a link"):
        await planted.mirror()


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        ("[extensions]\n\tobjectFormat = sha256\n", "objectFormat = sha256"),
        ("[Extensions] refStorage=reftable\n", "refStorage = reftable"),
        ('[core]\n\tx = 1\n[ extensions ]\n\tpartialClone = "origin"\n', "partialClone"),
    ],
)
async def test_a_format_that_the_view_cannot_show_is_refused(
    tmp_path: Path, config: str, shown: str
) -> None:
    planted = Planted(tmp_path, bare=True)
    planted.append(config)
    with pytest.raises(RepoNotFound, match=shown):
        await planted.mirror()


async def test_a_git_file_that_leads_out_of_the_allowed_folders_is_refused(tmp_path: Path) -> None:
    planted = Planted(tmp_path, bare=False)
    other = tmp_path / "private"
    plain_git(tmp_path, "clone", "-q", str(tmp_path / "made"), str(other))
    (tmp_path / "projects" / "trap").mkdir()
    (tmp_path / "projects" / "trap" / ".git").write_text(f"gitdir: {other}/.git\n")
    planted.path = tmp_path / "projects" / "trap"
    with pytest.raises(Exception, match="not below a folder that jobs may use"):
        await planted.mirror()


@pytest.mark.parametrize("bare", [True, False], ids=["bare", "checkout"])
async def test_a_repo_whose_refs_are_in_a_repo_elsewhere_is_refused(
    tmp_path: Path,
    bare: bool,  # noqa: FBT001
) -> None:
    planted = Planted(tmp_path, bare=bare)
    other = tmp_path / "private"
    plain_git(tmp_path, "clone", "-q", str(tmp_path / "made"), str(other))
    (planted.git_dir / "commondir").write_text(f"{other}/.git\n")
    with pytest.raises(Forbidden, match="not below a folder that jobs may use"):
        await planted.mirror()


@pytest.mark.parametrize("git", ["gitdir: \n", "nothing", "gitdir: /nowhere\n"])
async def test_a_broken_git_file_is_no_repo(tmp_path: Path, git: str) -> None:
    planted = Planted(tmp_path, bare=False)
    (planted.path / ".git").rename(tmp_path / "away")
    (planted.path / ".git").write_text(git)
    with pytest.raises(RepoNotFound):
        find_repo(planted.path)


async def test_no_view_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = Planted(tmp_path, bare=True)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    await planted.is_served("x")
    mirror = await planted.mirror()
    with pytest.raises(GitFailed):
        await mirror.fetch_branch("no-such-branch")
    assert list(temporary.iterdir()) == []


async def test_a_ship_into_a_checkout_is_in_its_reflog(tmp_path: Path) -> None:
    planted = Planted(tmp_path, bare=False)
    await planted.is_served("x")
    assert len(plain_git(planted.path, "reflog", "main").splitlines()) == 2
    assert len(plain_git(planted.path, "reflog", "HEAD").splitlines()) == 2


def test_the_list_has_every_setting_of_the_installed_git_that_names_a_program() -> None:
    shown = subprocess.run(
        ["git", "help", "--config"], capture_output=True, text=True, check=False, env=os.environ
    ).stdout.split()
    endings = ("cmd", "command", "program", "helper", "hook", "editor", "pager", "textconv")
    names = {
        *("askpass", "browser", "clean", "difffilter", "driver", "external", "gitproxy"),
        *("httpd", "process", "receivepack", "smudge", "smtpserver", "templatedir", "tunnel"),
        *("update", "uploadpack", "vcs"),
    }
    tools = {"browser", "difftool", "man", "mergetool"}
    programs = {
        key
        for key in shown
        if (last := key.lower().rpartition(".")[2]).endswith(endings)
        or last in names
        or (last == "path" and key.partition(".")[0] in tools)
    }
    programs -= {"column.clean", "diff.<driver>.cachetextconv", "gitcvs.dbDriver"}
    kinds = {(key.partition(".")[0], key.rpartition(".")[2].lower()) for key in SETTINGS}
    others = {"advice", "color", "gui", "help", "http", "rebase"}
    unlisted = {
        key
        for key in programs
        if (key.partition(".")[0], key.rpartition(".")[2].lower()) not in kinds
        and key.partition(".")[0] not in others
    }
    assert unlisted == set()
