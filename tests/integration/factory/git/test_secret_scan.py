"""The secret scan finds the factory's secrets in a job's work before a push, in any encoding."""

import base64
from pathlib import Path

import pytest

from gigafactory.factory.git.secret_scan import SecretInWork, refuse_secrets
from tests.support.factory.git_repo import GitHarness, write

SECRET = "correct-horse-battery-staple"


@pytest.mark.parametrize(
    "content",
    [
        SECRET,
        f"key = '{SECRET}'\n",
        base64.b64encode(f"user:{SECRET}".encode()).decode(),
        f"\0binary {SECRET}",
    ],
)
async def test_secret_in_a_file_is_found(tmp_path: Path, content: str) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    write(worktree.path, {"notes/config.txt": content, "innocent.txt": "hello\n"})
    taken = await worktree.snapshot(worktree.commit)
    assert taken.commit is not None
    with pytest.raises(SecretInWork) as refused:
        await refuse_secrets(worktree.mirror, worktree.commit, taken.commit, [SECRET])
    assert refused.value.paths == ("notes/config.txt",)
    assert SECRET not in str(refused.value)


async def test_secret_in_a_file_name_is_found(tmp_path: Path) -> None:
    worktree = await GitHarness(tmp_path).worktree()
    write(worktree.path, {f"{SECRET}.txt": "x"})
    taken = await worktree.snapshot(worktree.commit)
    assert taken.commit is not None
    with pytest.raises(SecretInWork):
        await refuse_secrets(worktree.mirror, worktree.commit, taken.commit, [SECRET])


async def test_work_without_a_secret_passes_the_scan(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"old.txt": f"{SECRET}\n"})
    worktree = await world.worktree()
    write(worktree.path, {"old.txt": None, "new.txt": "nothing here\n"})
    taken = await worktree.snapshot(worktree.commit)
    assert taken.commit is not None
    await refuse_secrets(worktree.mirror, worktree.commit, taken.commit, [SECRET])
    await refuse_secrets(worktree.mirror, worktree.commit, taken.commit, [])
