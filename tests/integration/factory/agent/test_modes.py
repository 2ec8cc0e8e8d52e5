"""Modes of a factory: command line options, single runs, and limits of the machine."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from structlog.testing import capture_logs

from gigafactory.factory.agent.membership import FleetMembership, save_membership
from tests.services.aq import Ran, Shell
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


async def typed(harness: FactoryHarness, *flags: str) -> Ran:
    """Run `aq factory run` with these flags until it exits and return its outcome."""
    name = "attic"
    save_membership(
        harness.data_dir(name), FleetMembership(harness.server.url, name, await harness.token(name))
    )
    settings = {
        "AQ_DATA": str(harness.folder / f"disk-{name}"),
        "AQ_FACTORY_SANDBOX": "none",
        "AQ_FACTORY_COST_CLASS": "3",
    }
    return await asyncio.to_thread(Shell(harness.folder, settings).aq, "factory", "run", *flags)


async def factories(harness: FactoryHarness) -> dict[str, dict[str, Any]]:
    """Return the factories of the fleet by id."""
    data = (await harness.api.get("/factories")).json()
    return {each["id"]: each for each in data["factories"]}


async def test_command_line_options_apply_and_an_idle_factory_exits(
    harness: FactoryHarness,
) -> None:
    stranger = await harness.submit("touch x")
    where = ("--repos", str(harness.folder), "--allow-repo", "garden-*", "--label", "upstairs")
    ran = await typed(
        harness,
        "--slots",
        "3",
        "--seats",
        "command=2",
        *where,
        "--idle-exit",
        "1s",
        "--source",
        "poll",
    )
    assert ran.code == 0, ran.err
    attic = (await factories(harness))["attic"]
    assert (attic["slots"], attic["labels"], attic["costClass"]) == (3, ["upstairs"], 3)
    assert attic["engines"]["command"]["seats"] == 2
    job = await harness.job(stranger)
    assert job["result"] == "setup_failed"
    assert "it serves garden-*" in job["reason"]


async def test_once_option_runs_exactly_one_job(harness: FactoryHarness) -> None:
    first, second = [await harness.submit("touch x", lock="one") for _ in range(2)]
    ran = await typed(harness, "--once", "--repos", str(harness.folder))
    assert ran.code == 0, ran.err
    assert [(await harness.job(each))["stage"] for each in (first, second)] == ["testing", "queued"]


async def test_factory_below_its_disk_floor_offers_no_slots_and_logs_why(
    harness: FactoryHarness,
) -> None:
    with capture_logs() as said:
        async with harness.factory("full", disk_floor=1e9):
            assert (await factories(harness))["full"]["slots"] == 0
            job_id = await harness.submit("touch x")
            async with harness.factory("roomy"):
                assert (await harness.wait_until_idle(job_id))["result"] == "ok"
    assert [run["factoryId"] for run in await harness.runs(job_id)] == ["roomy"]
    reasons = [line["reason"] for line in said if line["event"] == "takes no new jobs"]
    assert "less than the floor of 1000000000.0 GiB" in reasons[0]
