"""Broken or unusual repos: the job succeeds, or fails with advice on the repair."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.factory.git_repo import plain_git, planted_program
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness

POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 12345\n"
)


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


async def ended(
    harness: FactoryHarness, body: str = "touch x", **manifest: object
) -> dict[str, Any]:
    """Run a job on the repo and return the job after its last run."""
    async with harness.factory():
        return await harness.wait_until_idle(await harness.submit(body, **manifest))


def refused(job: dict[str, Any], *words: str) -> None:
    """Assert that a job failed because of its repo and that its reason contains these words."""
    assert (job["stage"], job["result"]) == ("failed", "setup_failed"), job["reason"]
    for word in words:
        assert word in job["reason"]


async def test_missing_repo_is_named_in_the_reason(harness: FactoryHarness) -> None:
    gone = harness.folder / "gone.git"
    refused(await ended(harness, repo=str(gone)), str(gone), "correct the job's `repo`")


async def test_folder_without_a_repo_is_named_in_the_reason(harness: FactoryHarness) -> None:
    plain = harness.folder / "plain"
    plain.mkdir()
    refused(await ended(harness, repo=str(plain)), str(plain), "correct the job's `repo`")


async def test_unknown_repo_name_is_named_in_the_reason(harness: FactoryHarness) -> None:
    refused(await ended(harness, repo="no-such-repo"), "no-such-repo", "factory.addresses")


@pytest.mark.parametrize("base", [None, "main"])
async def test_repo_without_commits_fails_with_advice_to_push_one(
    harness: FactoryHarness, base: str | None
) -> None:
    empty = harness.folder / "empty.git"
    empty.mkdir()
    plain_git(empty, "init", "-q", "--bare")
    refused(await ended(harness, repo=str(empty), base=base), "empty", "push a first one")


async def test_detached_head_without_a_default_branch_requires_a_base(
    harness: FactoryHarness,
) -> None:
    for name in ("one", "two"):
        harness.remote.commit({"a.txt": f"{name}\n"}, branch=name)
    plain_git(harness.remote.path, "update-ref", "--no-deref", "HEAD", harness.start)
    plain_git(harness.remote.path, "update-ref", "-d", "refs/heads/main")
    refused(await ended(harness), "name one as `base`")
    done = await ended(harness, base="two")
    assert done["result"] == "ok", done["reason"]
    assert harness.remote.text(done["checkpoint"]["commit"], "a.txt") == "two"


async def test_missing_base_is_named_in_the_reason(harness: FactoryHarness) -> None:
    refused(
        await ended(harness, base="no-such-branch"), "'no-such-branch'", "another one as `base`"
    )


async def test_git_lfs_files_stay_pointers(harness: FactoryHarness) -> None:
    harness.remote.commit({"film.bin": POINTER, ".gitattributes": "*.bin filter=lfs -text\n"})
    for key, value in (("process", "git-lfs filter-process"), ("required", "true")):
        plain_git(harness.remote.path, "config", f"filter.lfs.{key}", value)
    done = await ended(harness, "cat film.bin; printf new > other.bin")
    assert done["result"] == "ok", done["reason"]
    assert POINTER in await harness.log(done["id"])
    commit = done["checkpoint"]["commit"]
    assert harness.remote.text(commit, "film.bin") == POINTER.strip()
    assert harness.remote.text(commit, "other.bin") == "new"


async def test_submodule_is_an_empty_folder_and_is_never_fetched(
    harness: FactoryHarness,
) -> None:
    program, trace = planted_program(harness.folder, "submodule")
    bare = harness.remote.path
    modules = f'[submodule "sub"]\n\tpath = sub\n\turl = ext::{program}\n\tupdate = !{program}\n'
    harness.remote.commit({".gitmodules": modules})
    plain_git(bare, "read-tree", "main")
    plain_git(bare, "update-index", "--add", "--cacheinfo", f"160000,{harness.start},sub")
    made = plain_git(bare, "commit-tree", "-m", "sub", "-p", "main", plain_git(bare, "write-tree"))
    plain_git(bare, "update-ref", "refs/heads/main", made)
    done = await ended(harness, "ls -A sub | wc -l; touch x")
    assert done["result"] == "ok", done["reason"]
    assert "0\n" in await harness.log(done["id"])
    listed = plain_git(bare, "ls-tree", done["checkpoint"]["commit"], "sub")
    assert listed.split() == ["160000", "commit", harness.start, "sub"]
    assert not trace.exists()


async def test_commands_in_repo_git_config_are_never_run(harness: FactoryHarness) -> None:
    program, trace = planted_program(harness.folder, "settings")
    for key in (
        *("core.fsmonitor", "core.sshCommand", "core.pager", "diff.external", "gpg.program"),
        *("uploadpack.packObjectsHook", "filter.evil.smudge", "filter.evil.clean"),
    ):
        plain_git(harness.remote.path, "config", key, str(program))
    plain_git(harness.remote.path, "config", "commit.gpgSign", "true")
    harness.remote.commit({".gitattributes": "* filter=evil diff=evil\n", "a.txt": "1\n"})
    done = await ended(harness, "echo 2 > a.txt")
    assert done["result"] == "ok", done["reason"]
    assert harness.remote.text(done["checkpoint"]["commit"], "a.txt") == "2"
    assert not trace.exists()
