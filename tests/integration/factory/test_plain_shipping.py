"""Shipping to a plain git remote: by whichever factory is free, and only by merge."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.integration.factory.yard import Yard, a_yard
from tests.integration.waiting import until


@pytest_asyncio.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with a_yard(tmp_path) as made:
        yield made


async def test_a_factory_ships_what_another_one_has_made(yard: Yard) -> None:
    async with yard.factory("mac-1"):
        job_id = await yard.submit("echo hello > hello.txt")
        await yard.rests(job_id, at="testing")
    async with yard.factory("mac-2"):
        await yard.act(job_id, "ship")
        assert (await yard.rests(job_id, at="shipped"))["reason"] is None
    assert yard.remote.text("main", "hello.txt") == "hello"


async def test_a_plain_remote_has_no_pull_requests_and_says_so(yard: Yard) -> None:
    async with yard.factory():
        job_id = await yard.submit("echo hello > hello.txt", ship="pr")
        await yard.rests(job_id, at="testing")
        await yard.act(job_id, "ship")

        async def refused() -> bool:
            return "ship_failed" in await yard.story(job_id)

        await until(refused)
        job = await yard.job(job_id)
    assert (job["stage"], job["result"]) == ("testing", "setup_failed")
    assert "factory.forges" in job["reason"]
    assert yard.remote.commit_of("main") == yard.start


async def test_a_conflict_leaves_the_base_and_names_the_files(yard: Yard) -> None:
    async with yard.factory():
        job_id = await yard.submit("echo ours > README.md")
        await yard.rests(job_id, at="testing")
        moved = yard.remote.commit({"README.md": "Theirs.\n"})
        await yard.act(job_id, "ship")

        async def refused() -> bool:
            return "ship_failed" in await yard.story(job_id)

        await until(refused)
        job = await yard.job(job_id)
    assert (job["stage"], job["result"]) == ("testing", "merge_conflict")
    assert "README.md" in job["reason"]
    assert yard.remote.commit_of("main") == moved
