"""Verify: every engine hears of a failed check, as often as the job allows."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.support.factory.local_fleet import FactoryHarness, a_local_harness
from tests.support.factory.scripted_agent import DONE, scripted_agent

CHECK = 'echo "seen $(wc -l < page.txt) lines"; test $(wc -l < page.txt) = 2'


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


async def test_an_engine_without_sessions_hears_of_the_failed_check_with_its_instructions(
    harness: FactoryHarness,
) -> None:
    heard = harness.folder / "prompts"
    environ = scripted_agent(harness.folder / "bin", "echo line >> page.txt", DONE, prompts=heard)
    async with harness.factory(environ=environ):
        job_id = await harness.submit("Write two lines.", engine="pi", verify=CHECK)
        done = await harness.wait_until_idle(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), await harness.log(job_id)
    first, second, third = heard.read_text().split("Write two lines.")
    assert first == ""
    assert "fails on your work" not in second
    assert "your work is in this working tree" in third
    assert "seen 1 lines" in third


async def test_no_verify_rounds_means_that_the_engine_is_started_once(
    harness: FactoryHarness,
) -> None:
    environ = scripted_agent(harness.folder / "bin", "echo line >> page.txt", DONE)
    async with harness.factory(environ=environ):
        job_id = await harness.submit(
            "Write two lines.", engine="pi", verify=CHECK, verifyRounds=0, retry={"max": 0}
        )
        done = await harness.wait_until_idle(job_id)
        log = await harness.log(job_id)
    assert (done["stage"], done["result"]) == ("failed", "verify_failed")
    assert log.count("pi started") == 1
    assert done["reason"].endswith("exited with 1: seen 1 lines")


async def test_a_check_that_prints_nothing_leaves_no_colon(harness: FactoryHarness) -> None:
    async with harness.factory():
        job_id = await harness.submit("echo x > x", verify="exit 3", retry={"max": 0})
        done = await harness.wait_until_idle(job_id)
    assert done["reason"] == "`exit 3` exited with 3"
