"""A coordinator that is killed repeatedly under load: nothing is lost or done twice."""

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.services.fork_server import ForkServer
from tests.services.postgres import Server
from tests.support.crash.history_checker import find_violations, open_store, read_requests
from tests.support.crash.load import Load
from tests.support.crash.restarting_coordinator import RestartingCoordinator, running_coordinator
from tests.support.crash.retrying_client import admin_client
from tests.support.polling import until

JOBS = 150
WORKERS = 8
ANSWERS = 700
"""About so many answers does all of it take."""
KILLS = 5


def answered(notes: Sequence[object], count: int) -> bool:
    return len(notes) >= count


async def strike(coordinator: RestartingCoordinator, notes: Sequence[object], seed: int) -> None:
    """Kill the coordinator at random moments that depend on the seed."""
    chosen = random.Random(seed)
    for moment in sorted(chosen.sample(range(50, ANSWERS), KILLS)):
        await until(partial(answered, notes, moment))
        # The delay moves the kill to a random moment between two responses.
        await asyncio.sleep(chosen.random() * 0.02)
        await coordinator.restart()


async def endure(coordinator: RestartingCoordinator, where: str | Path, seed: int) -> None:
    async with running_coordinator(coordinator), admin_client(coordinator) as admin:
        load = Load(admin, jobs=JOBS, factories=WORKERS)
        await load.enroll_factories()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load.work())
            tasks.create_task(strike(coordinator, admin.responses, seed))
        await coordinator.stop()
    assert coordinator.kills == KILLS
    async with open_store(where) as kept:
        assert (
            await find_violations(kept, read_requests(coordinator.history), admin.responses) == []
        )
        assert await load.violations(kept) == []


@pytest.mark.parametrize("seed", [1, 2])
async def test_kills_under_load_lose_and_repeat_nothing_on_the_embedded_store(
    seed: int, forks: ForkServer, tmp_path: Path
) -> None:
    await endure(RestartingCoordinator(forks, tmp_path), tmp_path / "data" / "fleet.db", seed)


async def test_kills_under_load_lose_and_repeat_nothing_on_postgresql(
    forks: ForkServer, private_postgres: Server, tmp_path: Path
) -> None:
    where = private_postgres.dsn()
    await endure(RestartingCoordinator(forks, tmp_path, store=where), where, seed=3)
