"""A remote, people who push to it, and a factory that mirrors it, each in a separate folder."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gigafactory.factory.core.allowed_folders import AllowedFolders
from gigafactory.factory.git.git import Git
from gigafactory.factory.git.mirror import Mirror, Mirrors
from gigafactory.factory.git.remote_url import AllowedRemotes, parse_address
from gigafactory.factory.git.worktree import Worktree

Content = str | bytes | None

DROP_CONNECTION = "kill -9 $PPID; exit 1"
"""Drops the connection of a push."""
REJECT_PUSH = "echo 'only on Sundays' >&2; exit 1"
"""Rejects a push with a message."""

SERVER = "192.0.2.1"
"""An address that no machine has."""

_PERSON = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a person",
    "GIT_AUTHOR_EMAIL": "person@example.com",
    "GIT_COMMITTER_NAME": "a person",
    "GIT_COMMITTER_EMAIL": "person@example.com",
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
}


def plain_git(folder: Path, *args: str, check: bool = True) -> str:
    """Run git as a person does, with the configuration of the repo."""
    done = subprocess.run(
        ["git", *args], cwd=folder, env=_PERSON, check=check, capture_output=True, timeout=60
    )
    return done.stdout.decode().removesuffix("\n")


def fake_ssh(folder: Path) -> Path:
    """Write a fake `ssh` that runs on this machine with a clean environment; return its path."""
    program = folder / "ssh-bin" / "ssh"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        "#!/bin/sh\nfor last; do :; done\n"
        f'exec env -i PATH="{os.environ["PATH"]}" HOME=/dev/null GIT_CONFIG_NOSYSTEM=1'
        ' sh -c "$last"\n'
    )
    program.chmod(0o755)
    return program


def write(folder: Path, files: Mapping[str, Content]) -> None:
    for name, content in files.items():
        path = folder / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


class Remote:
    """A bare repo that others push to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._clone = path.with_suffix(".person")
        self._gone = path.with_suffix(".gone")
        if path.exists():
            return
        path.mkdir(parents=True)
        plain_git(path, "init", "-q", "--bare", "--initial-branch=main")
        plain_git(path.parent, "clone", "-q", str(path), str(self._clone))

    def commit(self, files: Mapping[str, Content], *, branch: str = "main") -> str:
        """Commit files on a branch as a person, push, and return the commit."""
        clone = self._clone
        plain_git(clone, "fetch", "-q", "--prune", "origin")
        start = f"origin/{branch}" if self.commit_of(branch) else "origin/main"
        if self.commit_of("main"):
            plain_git(clone, "checkout", "-q", "--detach", start)
        write(clone, files)
        plain_git(clone, "add", "-A", "-f")
        plain_git(clone, "commit", "-q", "--allow-empty", "-m", "by a person")
        plain_git(clone, "push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        return plain_git(clone, "rev-parse", "HEAD")

    def merge(self, other: str, *, into: str) -> str:
        """Merge one branch into another as a person, push, and return the commit."""
        clone = self._clone
        plain_git(clone, "fetch", "-q", "--prune", "origin")
        plain_git(clone, "checkout", "-q", "--detach", f"origin/{into}")
        plain_git(clone, "merge", "-q", "--no-edit", f"origin/{other}")
        plain_git(clone, "push", "-q", "origin", f"HEAD:refs/heads/{into}")
        return plain_git(clone, "rev-parse", "HEAD")

    def revert(self, branch: str) -> str:
        """Revert the newest commit of a branch as a person, push, and return the commit."""
        clone = self._clone
        plain_git(clone, "fetch", "-q", "--prune", "origin")
        plain_git(clone, "checkout", "-q", "--detach", f"origin/{branch}")
        merge = len(plain_git(clone, "log", "-1", "--format=%P").split()) > 1
        plain_git(clone, "revert", "--no-edit", *(("-m", "1") if merge else ()), "HEAD")
        plain_git(clone, "push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        return plain_git(clone, "rev-parse", "HEAD")

    @property
    def url(self) -> str:
        """Return its address as a server with its own hooks and settings; see `fake_ssh`."""
        return f"ssh://git@{SERVER}{self.path}"

    def on_push(self, answer: str, *, to: str = "*", when: str = "true") -> None:
        """Run a shell command whenever matching refs are pushed."""
        self._hook(
            "pre-receive",
            "while read -r old new ref; do case $ref in\n"
            f"  {to}) if {when}; then {answer}; fi ;;\nesac; done",
        )

    def vanish_after_push(self, *, when: str) -> None:
        """Accept a push and disappear before the response, until `come_back` is called."""
        gone = f"mv '{self.path}' '{self._gone}'; kill -9 $PPID"
        self._hook("post-receive", f"if {when}; then {gone}; fi")

    def come_back(self) -> None:
        self._gone.rename(self.path)
        (self.path / "hooks" / "post-receive").unlink()

    def accept_pushes(self) -> None:
        (self.path / "hooks" / "pre-receive").unlink()

    def _hook(self, name: str, body: str) -> None:
        hook = self.path / "hooks" / name
        hook.write_text(f"#!/bin/sh\n{body}\n")
        hook.chmod(0o755)

    def delete(self, branch: str) -> None:
        plain_git(self.path, "update-ref", "-d", f"refs/heads/{branch}")

    def commit_of(self, branch: str) -> str | None:
        ref = f"refs/heads/{branch}"
        return plain_git(self.path, "rev-parse", "-q", "--verify", ref, check=False) or None

    def branches(self) -> list[str]:
        return plain_git(
            self.path, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"
        ).splitlines()

    def text(self, commit: str, path: str) -> str:
        return plain_git(self.path, "show", f"{commit}:{path}")

    def files(self, commit: str) -> list[str]:
        return plain_git(self.path, "ls-tree", "-r", "--name-only", commit).splitlines()

    def log(self, branch: str) -> list[str]:
        return plain_git(self.path, "log", "--format=%s", branch).splitlines()


class GitHarness:
    """A remote, and a factory with its own mirror folder."""

    def __init__(self, folder: Path, *, machine: str = "machine", served: bool = False) -> None:
        """Create the remote; with `served`, it is a separate server, not a repo on this machine."""
        self.folder = folder
        path = folder / "server" / "notes.git"
        self.remote = Remote(path)
        self.git = Git(local=True, ssh=str(fake_ssh(folder))) if served else Git(local=True)
        self.mirrors = Mirrors(folder / machine / "mirrors", self.git)
        allowed = AllowedRemotes(folders=AllowedFolders(roots=(folder / "server",)))
        self.address = parse_address(self.remote.url if served else str(path), allowed)
        self.machine = folder / machine

    async def mirror(self) -> Mirror:
        return await self.mirrors.open(self.address)

    async def worktree(self, files: Mapping[str, Content] | None = None) -> Worktree:
        """Return a worktree on a new commit of these files."""
        commit = self.remote.commit(files or {"a.txt": "one\n", "src/b.txt": "two\n"})
        return await Worktree.add(await self.mirror(), self.machine / "work" / "job", commit)


def tree(mirror: Mirror, commit: str) -> dict[str, str]:
    """Return the paths of a commit, each with its mode."""
    listed = plain_git(mirror.folder, "ls-tree", "-r", "-z", commit)
    entries = [entry.partition("\t") for entry in listed.split("\0") if entry]
    return {path: kind.split()[0] for kind, _, path in entries}


def blob(mirror: Mirror, commit: str, path: str) -> str:
    return plain_git(mirror.folder, "cat-file", "blob", f"{commit}:{path}")


def planted_program(folder: Path, name: str) -> tuple[Path, Path]:
    """Return a program that an attacker wants to run, and the trace that it leaves."""
    trace = folder / f"{name}.was-run"
    program = folder / f"{name}.sh"
    program.write_text(f"#!/bin/sh\ntouch '{trace}'\ncat\n")
    program.chmod(0o755)
    return program, trace
