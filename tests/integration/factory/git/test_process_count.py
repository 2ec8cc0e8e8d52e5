"""The number of git processes per run, on a repo of typical size."""

from pathlib import Path

import pytest

from gigafactory.factory.git.worktree import Worktree
from tests.support.factory.git_repo import Content, GitHarness, write

FILES = 5000
FOLDERS = 100


@pytest.fixture
def world(tmp_path: Path) -> GitHarness:
    world = GitHarness(tmp_path)
    files: dict[str, Content] = {
        f"src/{number % FOLDERS}/{number}.py": f"print({number})\n" for number in range(FILES)
    }
    world.remote.commit(files)
    return world


async def test_git_process_count_does_not_depend_on_the_number_of_files(world: GitHarness) -> None:
    mirror = await world.mirror()
    commit = await mirror.resolve("main")

    def since(before: int) -> int:
        return world.git.runs - before

    before = world.git.runs
    worktree = await Worktree.add(mirror, world.machine / "job", commit)
    assert since(before) == 2

    before = world.git.runs
    assert (await worktree.snapshot(commit)).commit is None
    assert since(before) <= 3

    before = world.git.runs
    assert (await worktree.snapshot(commit)).commit is None
    assert since(before) == 1

    write(worktree.path, {f"src/{number}/new.py": "1\n" for number in range(FOLDERS)})
    write(worktree.path, {f"src/{number}/{number}.py": "2\n" for number in range(FOLDERS)})
    before = world.git.runs
    first = (await worktree.snapshot(commit)).commit
    assert first is not None
    assert since(before) == 4

    before = world.git.runs
    assert (await worktree.snapshot(first)).commit is None
    assert since(before) == 1
