"""Unreachable or refusing remotes at every step: the job has the reason, and no work is lost."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.factory.git_repo import DROP_CONNECTION, REJECT_PUSH
from tests.support.factory.local_fleet import LocalHarness, a_local_harness
from tests.support.polling import until

LATER = timedelta(seconds=31)


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[LocalHarness]:
    async with a_local_harness(tmp_path, served=True) as made:
        yield made


async def handed_back(harness: LocalHarness, job_id: str) -> str:
    """Wait until a job is released and return its reason."""

    async def there() -> bool:
        return "released" in await harness.event_types(job_id)

    await until(there)
    job = await harness.job(job_id)
    assert (job["stage"], job["result"], job["attempts"]) == ("queued", "overloaded", 0), job
    reason: str = job["reason"]
    return reason


async def test_unknown_host_releases_the_job(harness: LocalHarness) -> None:
    async with harness.factory():
        job_id = await harness.submit("touch x", repo="https://no-such-host.invalid/me/notes.git")
        reason = await handed_back(harness, job_id)
    assert "cannot be reached" in reason
    assert "no-such-host.invalid" in reason


async def test_remote_unreachable_at_checkout_releases_the_job(
    harness: LocalHarness,
) -> None:
    harness.remote.on_push(DROP_CONNECTION)
    async with harness.factory():
        job_id = await harness.submit("echo was here; touch x")
        reason = await handed_back(harness, job_id)
        assert "cannot be reached" in reason
        assert "is kept" not in reason, "there is nothing yet to be kept"
        assert "was here" not in await harness.log(job_id)
        harness.remote.accept_pushes()
        harness.clock.advance(LATER)
        assert (await harness.wait_until_idle(job_id))["result"] == "ok"


async def test_remote_unreachable_at_the_result_push_keeps_the_checkpoint(
    harness: LocalHarness,
) -> None:
    harness.remote.on_push(DROP_CONNECTION, to="refs/heads/aq/job/*")
    async with harness.factory():
        job_id = await harness.submit("[ -e one ] && touch two; touch one")
        assert "cannot be reached" in await handed_back(harness, job_id)
        saved = (await harness.job(job_id))["checkpoint"]
        assert saved["branch"] == f"aq/wip/{job_id}/1"
        assert harness.remote.text(saved["commit"], "one") == ""
        harness.remote.accept_pushes()
        harness.clock.advance(LATER)
        done = await harness.wait_until_idle(job_id)
    assert harness.remote.text(done["checkpoint"]["commit"], "two") == ""


async def test_unpushed_worktree_is_kept_and_resumed_by_the_next_run(
    harness: LocalHarness,
) -> None:
    away = harness.folder / "away"
    harness.remote.on_push(DROP_CONNECTION, when=f"[ -e {away} ]")
    async with harness.factory():
        body = f"if [ -e one ]; then touch two; else touch one {away}; fi"
        job_id = await harness.submit(body)
        reason = await handed_back(harness, job_id)
        kept = harness.data_dir().worktree(job_id)
        assert f"the work is kept on factory mac-1 in {kept}" in reason
        assert (kept / "one").exists()
        away.unlink()
        harness.clock.advance(LATER)
        done = await harness.wait_until_idle(job_id)
        assert done["result"] == "ok", done["reason"]
        # The factory reports the result first and removes the worktree afterwards.
        await until(lambda: not kept.exists())
    assert harness.remote.text(done["checkpoint"]["commit"], "two") == "", (
        "it went on with its work"
    )


@pytest.mark.parametrize("refs", ["refs/heads/aq/wip/*", "refs/heads/aq/job/*"])
async def test_rejected_push_quotes_the_remote(harness: LocalHarness, refs: str) -> None:
    harness.remote.on_push(REJECT_PUSH, to=refs)
    async with harness.factory():
        job = await harness.wait_until_idle(await harness.submit("echo precious > work"))
    assert (job["stage"], job["result"]) == ("failed", "setup_failed")
    assert "only on Sundays" in job["reason"]
    assert "the remote rejects the push" in job["reason"]
    if "job" in refs:
        assert harness.remote.text(job["checkpoint"]["commit"], "work") == "precious"


async def test_protected_base_fails_the_ship_which_can_be_repeated(
    harness: LocalHarness,
) -> None:
    async with harness.factory():
        job_id = await harness.submit("touch x")
        await harness.wait_until_idle(job_id)
        harness.remote.on_push(REJECT_PUSH, to="refs/heads/main")
        await harness.act(job_id, "ship")

        async def tried() -> bool:
            return "ship_failed" in await harness.event_types(job_id)

        await until(tried)
        job = await harness.job(job_id)
        assert (job["stage"], harness.remote.commit_of("main")) == ("testing", harness.start)
        assert "only on Sundays" in job["reason"]
        harness.remote.accept_pushes()
        await harness.act(job_id, "ship")
        await harness.wait_until_idle(job_id, at="shipped")
