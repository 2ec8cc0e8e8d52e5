"""Reverts of shipped work: the next factory that fetches the repo reports them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from gigafactory.factory.git.reverts import find_reverts
from tests.support.factory.git_repo import GitHarness, plain_git
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.polling import until


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


async def shipped(harness: FactoryHarness, body: str, **manifest: object) -> str:
    job_id = await harness.submit(body, shipPolicy="auto", **manifest)
    await harness.wait_until_idle(job_id, at="shipped")
    return job_id


async def test_revert_of_shipped_work_is_reported_once_as_a_defect(
    harness: FactoryHarness,
) -> None:
    async with harness.factory():
        for style in ("merge", "squash"):
            job_id = await shipped(harness, f"echo {style} > {style}.txt", mergeStyle=style)
            took_back = harness.remote.revert("main")
            for number in range(2):
                await shipped(harness, f"echo {number} > {style}-{number}.txt")
            items = [
                event
                for event in (await harness.api.get(f"/jobs/{job_id}/events")).json()["events"]
                if event["type"] == "defect_reported"
            ]
            assert [event["data"]["reference"] for event in items] == [took_back]
            assert items[0]["data"]["source"] == "revert"
            assert items[0]["actor"] == "factory:mac-1"


async def test_revert_of_work_extended_by_people_is_a_defect_of_its_job(
    harness: FactoryHarness,
) -> None:
    async with harness.factory():
        job_id = await harness.submit("echo hello > hello.txt")
        branch = (await harness.wait_until_idle(job_id, at="testing"))["checkpoint"]["branch"]
        harness.remote.commit({"more.txt": "more\n"}, branch=branch)
        await harness.act(job_id, "ship")

        async def refused() -> bool:
            return "ship_failed" in await harness.event_types(job_id)

        await until(refused)
        await harness.act(job_id, "ship")
        await harness.wait_until_idle(job_id, at="shipped")
        harness.remote.revert("main")
        await shipped(harness, "echo next > next.txt")
        assert "defect_reported" in await harness.event_types(job_id)


async def test_revert_of_a_commit_without_a_job_is_ignored(tmp_path: Path) -> None:
    world = GitHarness(tmp_path)
    world.remote.commit({"a.txt": "1\n"})
    world.remote.commit({"a.txt": "2\n"})
    world.remote.revert("main")
    plain_git(world.remote.path, "gc", "-q", "--prune=now")
    mirror = await world.mirror()
    assert [each async for each in find_reverts(mirror, await mirror.resolve("main"))] == []
