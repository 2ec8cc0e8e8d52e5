"""Shipping to a plain git remote: by whichever factory is free, and only by merge."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.support.factory.local_fleet import Yard, a_yard
from tests.support.polling import until


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
        told = (await yard.people.get(f"/jobs/{job_id}?include=runs")).json()["runs"]
        assert [run["editedLines"] for run in told] == [0, None], "nothing was changed"
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


async def test_commits_that_people_add_need_another_decision_and_are_counted(yard: Yard) -> None:
    async with yard.factory():
        job_id = await yard.submit("echo hello > hello.txt", reviewPolicy="manual")
        made = (await yard.rests(job_id, at="review"))["checkpoint"]
        await yard.act(job_id, "approve")
        text = {"hello.txt": "hello, world\n", "more.txt": "one\ntwo\n"}
        newer = yard.remote.commit(text, branch=made["branch"])
        await yard.act(job_id, "ship")

        async def refused() -> bool:
            return "ship_failed" in await yard.story(job_id)

        await until(refused)
        job = await yard.job(job_id)
        assert (job["stage"], job["checkpoint"]["commit"]) == ("testing", newer)
        assert f"is at {newer[:12]} (4 lines)" in job["reason"]
        assert "approve" in job["actions"]
        assert "ship" not in job["actions"]
        assert yard.remote.commit_of("main") == yard.start
        asked = {"Accept": "application/json"}
        diff = (await yard.people.get(f"/jobs/{job_id}/diff", headers=asked)).json()
        assert (diff["commit"], diff["filesChanged"]) == (newer, 2)
        early = await yard.people.post(f"/jobs/{job_id}/actions/ship", json={})
        assert early.status_code == 409
        await yard.act(job_id, "approve")
        await yard.act(job_id, "ship")
        await yard.rests(job_id, at="shipped")
    assert yard.remote.text("main", "more.txt") == "one\ntwo"
    told = (await yard.people.get(f"/jobs/{job_id}?include=runs")).json()["runs"]
    assert [(run["step"], run["editedLines"]) for run in told] == [
        ("run", 4),
        ("ship", None),
        ("ship", None),
    ]


async def test_what_came_in_from_the_base_is_not_counted_as_an_edit(yard: Yard) -> None:
    async with yard.factory():
        job_id = await yard.submit("echo hello > hello.txt")
        branch = (await yard.rests(job_id, at="testing"))["checkpoint"]["branch"]
        yard.remote.commit({"theirs.txt": "a\nb\nc\n"})
        yard.remote.merge("main", into=branch)
        await yard.act(job_id, "ship")

        async def refused() -> bool:
            return "ship_failed" in await yard.story(job_id)

        await until(refused)
        assert "(0 lines)" in (await yard.job(job_id))["reason"]
        await yard.act(job_id, "ship")
        await yard.rests(job_id, at="shipped")
    assert yard.remote.text("main", "hello.txt") == "hello"


async def test_a_rewritten_branch_needs_another_decision_and_is_not_counted(yard: Yard) -> None:
    async with yard.factory():
        job_id = await yard.submit("echo hello > hello.txt")
        branch = (await yard.rests(job_id, at="testing"))["checkpoint"]["branch"]
        yard.remote.delete(branch)
        newer = yard.remote.commit({"other.txt": "other\n"}, branch=branch)
        await yard.act(job_id, "ship")

        async def refused() -> bool:
            return "ship_failed" in await yard.story(job_id)

        await until(refused)
        assert f"is at {newer[:12]}, and" in (await yard.job(job_id))["reason"]
    [run, *_] = (await yard.people.get(f"/jobs/{job_id}?include=runs")).json()["runs"]
    assert run["editedLines"] is None


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
