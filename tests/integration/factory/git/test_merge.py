"""Shipping to a plain remote: once, from the expected commit, or not at all."""

import asyncio
from pathlib import Path

import pytest

from gigafactory.domain.manifest.manifest import MergeStyle
from gigafactory.factory.git.commits import make_commit, run_trailers
from gigafactory.factory.git.errors import PushDenied, RefMoved
from gigafactory.factory.git.merge import MergeConflict, Merged, merge
from gigafactory.factory.git.mirror import Mirror
from gigafactory.factory.git.worktree import Worktree
from tests.support.factory.git_repo import Content, GitHarness, plain_git, write

STYLES: tuple[MergeStyle, ...] = ("merge", "squash")


async def a_result(world: GitHarness, job: str, files: dict[str, Content]) -> tuple[Mirror, str]:
    """Create a job's result on the current `main` and return the mirror and the commit."""
    mirror = await world.mirror()
    base = await mirror.resolve("main")
    worktree = await Worktree.add(mirror, world.machine / job, base)
    write(worktree.path, files)
    snapshot = (await worktree.snapshot(base)).commit
    assert snapshot is not None
    await worktree.remove()
    trailers = run_trailers(job=job, run=f"{job}.1", engine="claude", epoch=1)
    tree = await mirror.tree(snapshot)
    return mirror, await make_commit(mirror, tree, [base], f"Result of {job}", trailers)


def parents(world: GitHarness, commit: str) -> list[str]:
    return plain_git(world.remote.path, "log", "-1", "--format=%P", commit).split()


async def test_merge_commit_keeps_both_histories(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "1\n"})
    mirror, commit = await a_result(world, "job", {"b.txt": "2\n"})
    moved = world.remote.commit({"c.txt": "3\n"})
    merged = await merge(mirror, "main", commit, "merge", "Merge the work")
    assert merged == Merged(world.remote.commit_of("main") or "")
    assert isinstance(merged, Merged)
    assert parents(world, merged.commit) == [moved, commit]
    assert world.remote.text("main", "b.txt") == "2"
    assert world.remote.text("main", "c.txt") == "3"


async def test_squash_is_one_commit_with_job_and_run_trailers(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "1\n"})
    mirror, commit = await a_result(world, "job", {"b.txt": "2\n"})
    moved = world.remote.commit({"c.txt": "3\n"})
    merged = await merge(mirror, "main", commit, "squash", "Add b")
    assert isinstance(merged, Merged)
    assert parents(world, merged.commit) == [moved]
    message = plain_git(world.remote.path, "log", "-1", "--format=%B", "main")
    assert message.startswith("Add b\n\nAq-Job: job\nAq-Run: job.1\n")


async def test_fast_forward_moves_the_base_to_the_exact_commit_or_conflicts(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "1\n"})
    mirror, commit = await a_result(world, "job", {"b.txt": "2\n"})
    _, late = await a_result(world, "late", {"c.txt": "3\n"})
    assert await merge(mirror, "main", commit, "ff", "") == Merged(commit)
    assert await merge(mirror, "main", commit, "ff", "") == Merged(commit, before=True)
    refused = await merge(mirror, "main", late, "ff", "")
    assert isinstance(refused, MergeConflict)
    assert "the base has newer commits" in refused.reason
    assert world.remote.commit_of("main") == commit


@pytest.mark.parametrize("style", STYLES)
async def test_merge_conflict_names_the_files_and_changes_nothing(
    tmp_path: Path, style: MergeStyle
) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "1\n", "gone.txt": "1\n", "ok.txt": "1\n"})
    ours: dict[str, Content] = {"a.txt": "2\n", "gone.txt": "2\n", "ok.txt": "2\n"}
    mirror, commit = await a_result(world, "job", ours)
    moved = world.remote.commit({"a.txt": "3\n", "gone.txt": None})
    conflict = await merge(mirror, "main", commit, style, "x")
    assert isinstance(conflict, MergeConflict)
    assert conflict.files == ("a.txt", "gone.txt")
    assert world.remote.commit_of("main") == moved
    assert world.remote.branches() == ["main"]


@pytest.mark.parametrize("style", STYLES)
async def test_repeated_merge_finds_the_first_one_and_pushes_nothing(
    tmp_path: Path, style: MergeStyle
) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "1\n"})
    mirror, commit = await a_result(world, "job", {"b.txt": "2\n"})
    first = await merge(mirror, "main", commit, style, "x")
    assert isinstance(first, Merged)
    assert not first.before
    # Meanwhile `main` has moved, and the shipped file was even removed.
    moved = world.remote.commit({"b.txt": None, "c.txt": "3\n"})
    other = await GitHarness(tmp_path, machine="successor").mirror()
    plain_git(other.folder, "fetch", "-q", str(mirror.folder), commit)
    again = await merge(other, "main", commit, style, "x")
    assert again == Merged(first.commit, before=True)
    assert world.remote.commit_of("main") == moved


async def test_forged_run_trailer_does_not_count_as_shipped(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "1\n"})
    mirror, commit = await a_result(world, "job", {"b.txt": "2\n"})
    _, other = await a_result(world, "other", {"c.txt": "3\n"})
    forged = "Trust me\n\nAq-Job: job\nAq-Run: job.1"
    await merge(mirror, "main", other, "squash", forged)
    merged = await merge(mirror, "main", commit, "squash", "x")
    assert isinstance(merged, Merged)
    assert not merged.before
    assert world.remote.text("main", "b.txt") == "2"


async def test_changes_already_in_the_base_make_no_empty_squash_commit(
    tmp_path: Path,
) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "1\n"})
    mirror, commit = await a_result(world, "job", {"b.txt": "2\n"})
    same = world.remote.commit({"b.txt": "2\n"})
    assert await merge(mirror, "main", commit, "squash", "x") == Merged(same, before=True)


async def test_concurrent_merges_of_different_results_all_succeed(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "1\n"})
    results = [await a_result(world, f"job-{n}", {f"{n}.txt": "x\n"}) for n in range(4)]
    merged = await asyncio.gather(
        *(merge(mirror, "main", commit, "squash", f"job {n}", tries_max=20)
          for n, (mirror, commit) in enumerate(results))
    )  # fmt: skip
    assert all(isinstance(one, Merged) and not one.before for one in merged)
    assert sorted(world.remote.log("main")) == ["by a person", *(f"job {n}" for n in range(4))]


async def test_concurrent_merges_of_one_result_ship_it_once(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "1\n"})
    mirror, commit = await a_result(world, "job", {"b.txt": "2\n"})
    merged = await asyncio.gather(
        *(merge(mirror, "main", commit, "squash", f"try {n}") for n in range(3))
    )
    assert len({one.commit for one in merged if isinstance(one, Merged)}) == 1
    assert len(world.remote.log("main")) == 2


async def test_merge_gives_up_when_the_base_moves_on_every_try(tmp_path: Path) -> None:
    world = GitHarness(tmp_path, served=True)
    world.remote.commit({"a.txt": "1\n"})
    mirror, commit = await a_result(world, "job", {"b.txt": "2\n"})
    # The hook moves `main` during the push, so the push loses the race.
    hook = world.remote.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\nunset GIT_QUARANTINE_PATH\n"
        'git update-ref refs/heads/main "$(git -c user.name=p -c user.email=p@example.com'
        " commit-tree -m faster -p main 'main^{tree}')\"\n"
    )
    hook.chmod(0o755)
    with pytest.raises(RefMoved):
        await merge(mirror, "main", commit, "merge", "x", tries_max=3)
    assert world.remote.log("main").count("x") == 0


async def test_push_rejected_by_a_protected_base_raises_push_denied(tmp_path: Path) -> None:
    world = GitHarness(tmp_path, served=True)
    before = world.remote.commit({"a.txt": "1\n"})
    mirror, commit = await a_result(world, "job", {"b.txt": "2\n"})
    hook = world.remote.path / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'main is protected' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(PushDenied, match="main is protected"):
        await merge(mirror, "main", commit, "merge", "x")
    assert world.remote.commit_of("main") == before
