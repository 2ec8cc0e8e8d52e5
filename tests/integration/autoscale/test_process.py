"""`aq autoscale` as a process: it scales real factories up from zero and down again."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from gigafactory.factory.agent.membership import load_membership
from gigafactory.factory.core.data_dir import DataDir
from tests.services.aq import AQ, Shell, environment
from tests.support.factory.local_fleet import LocalHarness, a_local_harness
from tests.support.polling import until

SETTINGS = """\
[factory]
repos = "."
sandbox = "none"
[autoscale]
name = "me"
poll-every = 0.5
[autoscale.shapes.here]
capabilities = ["os:linux"]
engines = {command = 1}
maximum = 2
cool-down = 0
"""


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[LocalHarness]:
    async with a_local_harness(tmp_path) as made:
        (tmp_path / "aq.toml").write_text(SETTINGS)
        yield made


def shell(harness: LocalHarness) -> Shell:
    server = harness.api_server
    return Shell(
        harness.folder,
        {
            "AQ_FLEET_API": server.url,
            "AQ_FLEET_TOKEN": server.admin_token,
            "AQ_DATA": str(harness.folder / "data"),
        },
    )


def data_dir(harness: LocalHarness, name: str) -> DataDir:
    return DataDir.under(harness.folder / "data" / "autoscale" / name)


async def factories(harness: LocalHarness) -> dict[str, bool]:
    """Return whether each factory drains, by id."""
    result = (await harness.api.get("/factories")).json()["factories"]
    return {one["id"]: one["draining"] for one in result}


class Autoscaler:
    """One process of `aq autoscale`."""

    def __init__(self, harness: LocalHarness, number: int) -> None:
        self._said = harness.folder / f"said-{number}"
        typed = shell(harness)
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [AQ, "autoscale", "--json"],
                cwd=harness.folder,
                env=environment(harness.folder, **typed.environ),
                stdout=said,
                stderr=said,
            )

    @property
    def decisions(self) -> list[dict[str, object]]:
        whole = self._said.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    async def ended(self, number: int) -> int:
        self.process.send_signal(number)
        return await asyncio.to_thread(self.process.wait, 20)


async def test_autoscaled_factory_outlives_its_autoscaler_and_is_drained_by_the_next(
    harness: LocalHarness,
) -> None:
    sign = harness.folder / "sign"
    first = Autoscaler(harness, 1)
    try:
        await until(lambda: len(first.decisions) == 1)
        assert await factories(harness) == {}
        job_id = await harness.submit(
            f"echo begun; until [ -e {sign} ]; do sleep 0.05; done; echo hello > hello.txt"
        )
        await harness.wait_for_log(job_id, "begun\n")
        assert await factories(harness) == {"me.here.1": False}
    finally:
        assert await first.ended(signal.SIGKILL) == -signal.SIGKILL
    second = Autoscaler(harness, 2)
    try:
        await until(lambda: len(second.decisions) == 1)
        found = second.decisions[0]
        assert (found["wanted"], found["live"], "start" in found) == (1, 1, False)
        assert (await harness.job(job_id))["stage"] == "building"
        assert await factories(harness) == {"me.here.1": False}
        sign.touch()
        done = await harness.wait_until_idle(job_id)
        assert (done["stage"], done["result"]) == ("testing", "ok"), await harness.log(job_id)

        async def gone() -> bool:
            return await factories(harness) == {}

        await until(gone)
        await until(lambda: second.decisions[-1].get("live") == 0)
        items = [one["says"] for one in second.decisions]
        assert any("drains me.here.1" in str(line) for line in items), items
        assert not any("problem" in one for one in second.decisions), items
    finally:
        assert await second.ended(signal.SIGTERM) == 0
    assert [run["factoryId"] for run in await harness.runs(job_id)] == ["me.here.1"]
    assert load_membership(data_dir(harness, "me.here.1")) is None, "its token went with it"
    log = (harness.folder / "data" / "autoscale" / "me.here.1" / "log").read_text()
    assert "left the fleet" in log


async def test_single_dry_run_prints_the_decision_and_a_failed_start_is_reported(
    harness: LocalHarness,
) -> None:
    typed = shell(harness)
    await harness.submit("true")
    dry = await asyncio.to_thread(typed.aq, "autoscale", "--once", "--dry-run")
    assert (dry.code, dry.out) == (
        0,
        "here: 1 waiting, 0 at work, 1 wanted, 0 there; starts me.here.1\n",
    )
    shown = await asyncio.to_thread(typed.aq, "autoscale", "--show")
    assert "medium, command" in shown.out
    assert await factories(harness) == {}
    (harness.folder / "data" / "autoscale").mkdir(parents=True)
    (harness.folder / "data" / "autoscale" / "me.here.1").touch()
    failed = await asyncio.to_thread(typed.aq, "autoscale", "--once")
    assert failed.code == 1
    assert "here: cannot start me.here.1" in failed.err
