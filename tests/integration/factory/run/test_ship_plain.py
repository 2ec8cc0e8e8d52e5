"""Shipping to a plain git remote: by any free factory, and only by merge."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.polling import until


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


async def test_factory_ships_the_result_of_another_factory(harness: FactoryHarness) -> None:
    async with harness.factory("mac-1"):
        job_id = await harness.submit("echo hello > hello.txt")
        await harness.wait_until_idle(job_id, at="testing")
    async with harness.factory("mac-2"):
        await harness.act(job_id, "ship")
        assert (await harness.wait_until_idle(job_id, at="shipped"))["reason"] is None
        result = (await harness.api.get(f"/jobs/{job_id}?include=runs")).json()["runs"]
        assert [run["editedLines"] for run in result] == [0, None], "nothing was changed"
    assert harness.remote.text("main", "hello.txt") == "hello"


async def test_ship_pr_to_a_plain_remote_fails_with_a_hint(harness: FactoryHarness) -> None:
    async with harness.factory():
        job_id = await harness.submit("echo hello > hello.txt", ship="pr")
        await harness.wait_until_idle(job_id, at="testing")
        await harness.act(job_id, "ship")

        async def refused() -> bool:
            return "ship_failed" in await harness.event_types(job_id)

        await until(refused)
        job = await harness.job(job_id)
    assert (job["stage"], job["result"]) == ("testing", "setup_failed")
    assert "factory.forges" in job["reason"]
    assert harness.remote.commit_of("main") == harness.start


async def test_commits_added_by_people_need_another_decision_and_are_counted(
    harness: FactoryHarness,
) -> None:
    async with harness.factory():
        job_id = await harness.submit("echo hello > hello.txt", reviewPolicy="manual")
        made = (await harness.wait_until_idle(job_id, at="review"))["checkpoint"]
        await harness.act(job_id, "approve")
        text = {"hello.txt": "hello, world\n", "more.txt": "one\ntwo\n"}
        newer = harness.remote.commit(text, branch=made["branch"])
        await harness.act(job_id, "ship")

        async def refused() -> bool:
            return "ship_failed" in await harness.event_types(job_id)

        await until(refused)
        job = await harness.job(job_id)
        assert (job["stage"], job["checkpoint"]["commit"]) == ("testing", newer)
        assert f"is at {newer[:12]} (4 lines)" in job["reason"]
        assert "approve" in job["actions"]
        assert "ship" not in job["actions"]
        assert harness.remote.commit_of("main") == harness.start
        asked = {"Accept": "application/json"}
        diff = (await harness.api.get(f"/jobs/{job_id}/diff", headers=asked)).json()
        assert (diff["commit"], diff["filesChanged"]) == (newer, 2)
        early = await harness.api.post(f"/jobs/{job_id}/actions/ship", json={})
        assert early.status_code == 409
        await harness.act(job_id, "approve")
        await harness.act(job_id, "ship")
        await harness.wait_until_idle(job_id, at="shipped")
    assert harness.remote.text("main", "more.txt") == "one\ntwo"
    result = (await harness.api.get(f"/jobs/{job_id}?include=runs")).json()["runs"]
    assert [(run["step"], run["editedLines"]) for run in result] == [
        ("run", 4),
        ("ship", None),
        ("ship", None),
    ]


async def test_commits_merged_from_the_base_do_not_count_as_edits(
    harness: FactoryHarness,
) -> None:
    async with harness.factory():
        job_id = await harness.submit("echo hello > hello.txt")
        branch = (await harness.wait_until_idle(job_id, at="testing"))["checkpoint"]["branch"]
        harness.remote.commit({"theirs.txt": "a\nb\nc\n"})
        harness.remote.merge("main", into=branch)
        await harness.act(job_id, "ship")

        async def refused() -> bool:
            return "ship_failed" in await harness.event_types(job_id)

        await until(refused)
        assert "(0 lines)" in (await harness.job(job_id))["reason"]
        await harness.act(job_id, "ship")
        await harness.wait_until_idle(job_id, at="shipped")
    assert harness.remote.text("main", "hello.txt") == "hello"


async def test_rewritten_branch_needs_another_decision_and_is_not_counted(
    harness: FactoryHarness,
) -> None:
    async with harness.factory():
        job_id = await harness.submit("echo hello > hello.txt")
        branch = (await harness.wait_until_idle(job_id, at="testing"))["checkpoint"]["branch"]
        harness.remote.delete(branch)
        newer = harness.remote.commit({"other.txt": "other\n"}, branch=branch)
        await harness.act(job_id, "ship")

        async def refused() -> bool:
            return "ship_failed" in await harness.event_types(job_id)

        await until(refused)
        assert f"is at {newer[:12]}, and" in (await harness.job(job_id))["reason"]
    [run, *_] = (await harness.api.get(f"/jobs/{job_id}?include=runs")).json()["runs"]
    assert run["editedLines"] is None


async def test_merge_conflict_leaves_the_base_unchanged_and_names_the_files(
    harness: FactoryHarness,
) -> None:
    async with harness.factory():
        job_id = await harness.submit("echo ours > README.md")
        await harness.wait_until_idle(job_id, at="testing")
        moved = harness.remote.commit({"README.md": "Theirs.\n"})
        await harness.act(job_id, "ship")

        async def refused() -> bool:
            return "ship_failed" in await harness.event_types(job_id)

        await until(refused)
        job = await harness.job(job_id)
    assert (job["stage"], job["result"]) == ("testing", "merge_conflict")
    assert "README.md" in job["reason"]
    assert harness.remote.commit_of("main") == moved
