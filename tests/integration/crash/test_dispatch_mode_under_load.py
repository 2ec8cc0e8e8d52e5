"""Dispatch modes that switch under load: no job is stranded or done twice."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from gigafactory.client import workers
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.job.job import Event
from gigafactory.factory.agent.work_source import DeliveryMode, PollIntervals, WorkItem, WorkSource
from gigafactory.wire.workers import GrantView
from tests.services.fork_server import ForkServer
from tests.support.crash.history_checker import (
    find_violations,
    open_store,
    read_requests,
    read_store,
)
from tests.support.crash.restarting_coordinator import RestartingCoordinator, running_coordinator
from tests.support.crash.retrying_client import (
    Factory,
    RetryingClient,
    admin_client,
    enroll_factory,
)
from tests.support.polling import until

FACTORIES = 4
ROUNDS = 3
JOBS = 10
"""Handed in while each way holds."""
OFTEN = PollIntervals(poll_s=0.1, forced_poll_s=1.0, stream_retry_s=1.0)
BEAT_S = 0.5


class Machine:
    """A factory with an offer stream that also polls when the coordinator requires it."""

    def __init__(self, factory: Factory, client: AsyncClient) -> None:
        self._factory = factory
        self._client = client
        self._source = WorkSource(
            client,
            factory.who,
            f"{factory.who}-a",
            mode=DeliveryMode.STREAM,
            can_start=lambda _: True,
            intervals=OFTEN,
        )
        self.built: list[str] = []

    async def work(self) -> None:
        """Send heartbeats and run every offered or claimed job until cancelled."""
        await self._factory.beat()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._beat())
            tasks.create_task(self._take(self._source.receive()))
            tasks.create_task(self._take(self._source.poll_alongside_stream()))

    async def _beat(self) -> None:
        while True:
            heard = await self._factory.beat()
            asked = {"type": "ask"} in heard["commands"]
            (
                self._source.polling_requested.set
                if asked
                else self._source.polling_requested.clear
            )()
            await asyncio.sleep(BEAT_S)

    async def _take(self, works: AsyncIterator[WorkItem]) -> None:
        async for work in works:
            if isinstance(work, GrantView):
                for stage in ("building", "review"):
                    result = workers.report(work.job.id, work.lease_epoch, {"stage": stage})
                    await self._client.send(result)
                self.built.append(work.job.id)
            elif work.type == "ask":
                self._source.polling_requested.set()


async def switch(admin: RetryingClient, machines: Sequence[Machine]) -> list[str]:
    """Submit jobs while dispatch modes change, wait until all are built, and return their ids."""
    handed_in: list[str] = []
    for number in range(ROUNDS):
        for way in ("shadow", "pull", "push"):
            sent = {"mode": way, "force": True}
            turned = asyncio.create_task(admin.ask("PUT", "/shadow/notes", sent))
            names = [f"job-{number}-{way}-{job}" for job in range(JOBS)]
            handed_in += [await admin.submit(name) for name in names]
            (await turned).require()
    await until(lambda: sum(len(each.built) for each in machines) >= len(handed_in), within_s=60)
    return handed_in


async def switched_under_load(
    coordinators: Sequence[RestartingCoordinator], where: str | Path
) -> None:
    async with AsyncExitStack() as stack:
        for coordinator in coordinators:
            await stack.enter_async_context(running_coordinator(coordinator))
        admin = await stack.enter_async_context(admin_client(coordinators[0]))
        machines = []
        for number in range(FACTORIES):
            factory = await enroll_factory(admin, f"mac-{number}")
            process = coordinators[number % len(coordinators)].process
            token = factory.headers(process)["authorization"].removeprefix("Bearer ")
            client = await stack.enter_async_context(AsyncClient(process.url, token))
            machines.append(Machine(factory, client))
        async with asyncio.TaskGroup() as tasks:
            working = [tasks.create_task(machine.work()) for machine in machines]
            handed_in = await switch(admin, machines)
            for each in working:
                each.cancel()
        for coordinator in coordinators:
            await coordinator.stop()
    built = sorted(job_id for machine in machines for job_id in machine.built)
    assert built == sorted(handed_in)
    async with open_store(where) as kept:
        histories = (coordinator.history for coordinator in coordinators)
        assert await find_violations(kept, read_requests(*histories), admin.responses) == []
        events = [entry.event for entry in (await read_store(kept))[0]]
    assert [event.type for event in events].count("dispatch_changed") == 3 * ROUNDS
    assert _modes(events) == {"push", "pull"}, "jobs were offered, and asked for"


def _modes(events: Sequence[Event]) -> set[str]:
    return {event.data["decision"]["mode"] for event in events if event.type == "assigned"}


async def test_dispatch_mode_switches_strand_no_job_on_the_embedded_store(
    forks: ForkServer, tmp_path: Path
) -> None:
    await switched_under_load(
        [RestartingCoordinator(forks, tmp_path)], tmp_path / "data" / "fleet.db"
    )


async def test_dispatch_mode_switches_strand_no_job_with_two_coordinators(
    forks: ForkServer, database: str, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    await switched_under_load(
        [RestartingCoordinator(forks, each, store=database) for each in folders], database
    )
