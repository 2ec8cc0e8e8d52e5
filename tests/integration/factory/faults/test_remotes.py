"""Remotes that are away or say no, at any point: the reason reaches the job, no work is lost."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.factory.git_repo import AWAY, NO
from tests.support.factory.local_fleet import YardHere, a_yard
from tests.support.polling import until

LATER = timedelta(seconds=31)


@pytest_asyncio.fixture
async def yard(tmp_path: Path) -> AsyncIterator[YardHere]:
    async with a_yard(tmp_path, served=True) as made:
        yield made


async def handed_back(yard: YardHere, job_id: str) -> str:
    """The reason for which a job is back in the queue."""

    async def there() -> bool:
        return "released" in await yard.story(job_id)

    await until(there)
    job = await yard.job(job_id)
    assert (job["stage"], job["result"], job["attempts"]) == ("queued", "overloaded", 0), job
    reason: str = job["reason"]
    return reason


async def test_a_host_that_is_not_there_hands_the_job_back(yard: YardHere) -> None:
    async with yard.factory():
        job_id = await yard.submit("touch x", repo="https://no-such-host.invalid/me/notes.git")
        reason = await handed_back(yard, job_id)
    assert "cannot be reached" in reason
    assert "no-such-host.invalid" in reason


async def test_a_remote_that_dies_before_the_work_begins_hands_the_job_back(
    yard: YardHere,
) -> None:
    yard.remote.answers(AWAY)
    async with yard.factory():
        job_id = await yard.submit("echo was here; touch x")
        reason = await handed_back(yard, job_id)
        assert "cannot be reached" in reason
        assert "is kept" not in reason, "there is nothing yet to be kept"
        assert "was here" not in await yard.log(job_id)
        yard.remote.recovers()
        yard.clock.leap(LATER)
        assert (await yard.rests(job_id))["result"] == "ok"


async def test_a_remote_that_dies_under_the_result_costs_no_work(yard: YardHere) -> None:
    yard.remote.answers(AWAY, to="refs/heads/aq/job/*")
    async with yard.factory():
        job_id = await yard.submit("[ -e one ] && touch two; touch one")
        assert "cannot be reached" in await handed_back(yard, job_id)
        saved = (await yard.job(job_id))["checkpoint"]
        assert saved["branch"] == f"aq/wip/{job_id}/1"
        assert yard.remote.text(saved["commit"], "one") == ""
        yard.remote.recovers()
        yard.clock.leap(LATER)
        done = await yard.rests(job_id)
    assert yard.remote.text(done["checkpoint"]["commit"], "two") == ""


async def test_a_remote_that_stays_away_leaves_the_work_here_until_the_next_run(
    yard: YardHere,
) -> None:
    away = yard.folder / "away"
    yard.remote.answers(AWAY, when=f"[ -e {away} ]")
    async with yard.factory():
        body = f"if [ -e one ]; then touch two; else touch one {away}; fi"
        job_id = await yard.submit(body)
        reason = await handed_back(yard, job_id)
        kept = yard.data_dir().worktree(job_id)
        assert f"the work is kept on factory mac-1 in {kept}" in reason
        assert (kept / "one").exists()
        away.unlink()
        yard.clock.leap(LATER)
        done = await yard.rests(job_id)
        assert done["result"] == "ok", done["reason"]
        # It is told first, and cleared up then.
        await until(lambda: not kept.exists())
    assert yard.remote.text(done["checkpoint"]["commit"], "two") == "", "it went on with its work"


@pytest.mark.parametrize("refs", ["refs/heads/aq/wip/*", "refs/heads/aq/job/*"])
async def test_a_remote_that_refuses_a_push_is_quoted(yard: YardHere, refs: str) -> None:
    yard.remote.answers(NO, to=refs)
    async with yard.factory():
        job = await yard.rests(await yard.submit("echo precious > work"))
    assert (job["stage"], job["result"]) == ("failed", "setup_failed")
    assert "only on Sundays" in job["reason"]
    assert "the remote rejects the push" in job["reason"]
    if "job" in refs:
        assert yard.remote.text(job["checkpoint"]["commit"], "work") == "precious"


async def test_a_protected_base_leaves_the_job_where_it_can_be_shipped_again(
    yard: YardHere,
) -> None:
    async with yard.factory():
        job_id = await yard.submit("touch x")
        await yard.rests(job_id)
        yard.remote.answers(NO, to="refs/heads/main")
        await yard.act(job_id, "ship")

        async def tried() -> bool:
            return "ship_failed" in await yard.story(job_id)

        await until(tried)
        job = await yard.job(job_id)
        assert (job["stage"], yard.remote.commit_of("main")) == ("testing", yard.start)
        assert "only on Sundays" in job["reason"]
        yard.remote.recovers()
        await yard.act(job_id, "ship")
        await yard.rests(job_id, at="shipped")
