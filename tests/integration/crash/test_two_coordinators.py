"""Two coordinators on one database: one dispatches, and the other takes over when it is gone."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gigafactory.coordinator.core.ports import Store
from gigafactory.domain.fleet.factory import Factory as FactoryRecord
from gigafactory.domain.tenancy.leader import Leader
from gigafactory.store.postgres.store import PostgresStore
from tests.services.fork_server import ForkServer
from tests.support.crash.history_checker import find_violations, read_requests
from tests.support.crash.load import Load
from tests.support.crash.restarting_coordinator import (
    CoordinatorProcess,
    RestartingCoordinator,
    running_coordinator,
)
from tests.support.crash.retrying_client import (
    Factory,
    RetryingClient,
    admin_client,
    enroll_factory,
)
from tests.support.crash.scenarios import offer_of
from tests.support.polling import until

JOBS = 100
FACTORIES = 6
KILLED_AFTER = 30
SWITCH_AFTER_S = 0.05


class EitherCoordinator:
    """An address of two coordinators that switches when one does not respond."""

    def __init__(self, first: RestartingCoordinator, second: RestartingCoordinator) -> None:
        self._now, self._other = first, second

    @property
    def process(self) -> CoordinatorProcess:
        return self._now.process

    async def wait_for_restart(self, process: CoordinatorProcess) -> None:
        await asyncio.sleep(SWITCH_AFTER_S)
        if self.process is process:
            self._now, self._other = self._other, self._now


def with_(factory: Factory, caller: RetryingClient, place: EitherCoordinator) -> Factory:
    """Return the same factory as a client of these coordinators."""
    token = factory.headers(caller.address.process)["authorization"].removeprefix("Bearer ")
    return Factory(caller.http, place, caller.responses, factory.who, token)


class Pair:
    """Two coordinators and their shared store."""

    def __init__(
        self, store: Store, one: RestartingCoordinator, other: RestartingCoordinator
    ) -> None:
        self.store = store
        self.coordinator = (one, other)
        self._names = {coordinator.folder: _name(coordinator) for coordinator in self.coordinator}

    def name(self, coordinator: RestartingCoordinator) -> str:
        """Return the name of a coordinator in the store."""
        return self._names[coordinator.folder]

    async def leader(self) -> tuple[RestartingCoordinator, RestartingCoordinator]:
        """Return the leader and the other coordinator."""
        record = await self.store.record(Leader, "dispatcher")
        assert record is not None
        one, other = self.coordinator
        return (one, other) if record.holder == self.name(one) else (other, one)

    async def leads(self, coordinator: RestartingCoordinator) -> bool:
        """Return whether the store names a coordinator as the leader."""
        record = await self.store.record(Leader, "dispatcher")
        return record is not None and record.holder == self.name(coordinator)

    async def find_violations(self, caller: RetryingClient) -> list[str]:
        """Check the histories of both coordinators and return the violations."""
        histories = (coordinator.history for coordinator in self.coordinator)
        return await find_violations(self.store, read_requests(*histories), caller.responses)


def _name(coordinator: RestartingCoordinator) -> str:
    name: str = json.loads(coordinator.history.read_text().splitlines()[0])["by"]
    return name


@asynccontextmanager
async def both(
    one: RestartingCoordinator, other: RestartingCoordinator, database: str
) -> AsyncIterator[Pair]:
    """Run two coordinators and yield them when one of them leads."""
    async with (
        running_coordinator(one),
        running_coordinator(other),
        PostgresStore.open(database) as store,
    ):
        await until(lambda: _has_a_leader(store))
        yield Pair(store, one, other)


async def _has_a_leader(store: Store) -> bool:
    return await store.record(Leader, "dispatcher") is not None


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    return one, other


async def listen(load: Load, factory: Factory) -> None:
    """Accept and run every offered job until cancelled."""
    async for message in factory.messages():
        if message.event == "offer":
            answer = await factory.accept(message.data)
            if answer.ok:
                await load.run_job(factory, answer.body)
            else:
                assert answer.body["code"] == "offer_gone", answer


async def test_other_coordinator_dispatches_when_the_leader_is_killed(
    forks: ForkServer, database: str, folders: tuple[Path, Path]
) -> None:
    one, other = (RestartingCoordinator(forks, folder, store=database) for folder in folders)
    async with (
        both(one, other, database) as pair,
        admin_client(EitherCoordinator(one, other)) as admin,
    ):
        load = Load(admin, jobs=JOBS, factories=FACTORIES)
        await load.enroll_factories()
        orders = [(one, other), (other, one)]
        split = [
            with_(factory, admin, EitherCoordinator(*orders[number % 2]))
            for number, factory in enumerate(load.factories)
        ]
        listening = [asyncio.create_task(listen(load, factory)) for factory in split]
        submitting = [asyncio.create_task(load.submit_jobs()) for _ in range(4)]

        async def done(count: int) -> bool:
            assert not [task.result() for task in listening if task.done()]
            return len(load.done) >= count

        await until(lambda: done(KILLED_AFTER))
        leader, successor = await pair.leader()
        await leader.end()
        await until(lambda: pair.leads(successor))
        await until(lambda: done(JOBS))
        await asyncio.gather(*submitting)
        factories = await pair.store.records(FactoryRecord)
        assert {factory.streaming for factory in factories} == {pair.name(successor)}
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        assert await pair.find_violations(admin) == []
        assert await load.violations(pair.store) == []


async def test_leader_stopped_past_its_term_makes_no_more_offers(
    forks: ForkServer, database: str, folders: tuple[Path, Path]
) -> None:
    stopped = RestartingCoordinator(
        forks, folders[0], store=database, kill_points=["asked:offer:1:STOP"]
    )
    successor = RestartingCoordinator(forks, folders[1], store=database)
    async with both(stopped, successor, database) as pair, admin_client(successor) as admin:
        assert await pair.leads(stopped)
        factory = await enroll_factory(admin, "mac-1")
        factory.slots = 1
        messages = factory.messages()
        await anext(messages)
        late = await admin.submit("late")
        await until(lambda: _asked(stopped, "offer"))
        # The factory is busy from now on, so the successor cannot dispatch the job. Only the end of
        # its term can then prevent the pending offer of the stopped leader.
        await admin.submit("urgent", priority="critical")
        grant = await factory.granted()
        assert grant["job"]["name"] == "urgent"
        await until(lambda: pair.leads(successor))
        before = await admin.job(late)
        os.kill(stopped.process.pid, signal.SIGCONT)
        await until(lambda: _refused(stopped, "offer"))
        assert await admin.job(late) == before
        await factory.build(grant)
        offer = await offer_of(messages, late)
        await factory.build((await factory.accept(offer)).require())
        await messages.aclose()
        assert await pair.find_violations(admin) == []
        assert not await pair.leads(stopped)


async def _asked(coordinator: RestartingCoordinator, verb: str) -> bool:
    return any(asked.what == verb for asked in read_requests(coordinator.history))


async def _refused(coordinator: RestartingCoordinator, verb: str) -> bool:
    offers = [asked for asked in read_requests(coordinator.history) if asked.what == verb]
    assert not any(asked.accepted for asked in offers)
    return any(asked.accepted is False for asked in offers)


async def test_moved_offer_stream_is_not_closed_by_its_first_coordinator(
    forks: ForkServer, database: str, folders: tuple[Path, Path]
) -> None:
    first, second = (RestartingCoordinator(forks, folder, store=database) for folder in folders)
    async with both(first, second, database) as pair, admin_client(second) as admin:
        factory, another = (
            await enroll_factory(admin, "mac-1"),
            await enroll_factory(admin, "mac-2"),
        )
        there = with_(factory, admin, EitherCoordinator(first, second)).messages()
        await anext(there)
        await until(lambda: _streams(pair, factory, first))
        os.kill(first.process.pid, signal.SIGSTOP)
        await there.aclose()
        here = factory.messages()
        await anext(here)
        await until(lambda: _streams(pair, factory, second))
        os.kill(first.process.pid, signal.SIGCONT)
        # The first coordinator now closes its own stream and must not close the moved one. Once it
        # has closed a later stream, it has handled this one.
        after = with_(another, admin, EitherCoordinator(first, second)).messages()
        await anext(after)
        await until(lambda: _streams(pair, another, first))
        await after.aclose()
        await until(lambda: _streams(pair, another, None))
        assert await _streams(pair, factory, second)
        job_id = await admin.submit("offered")
        offer = await offer_of(here, job_id)
        (await factory.accept(offer)).require()
        await here.aclose()


async def _streams(pair: Pair, factory: Factory, coordinator: RestartingCoordinator | None) -> bool:
    record = await pair.store.record(FactoryRecord, factory.who)
    assert record is not None
    return record.streaming == (pair.name(coordinator) if coordinator else None)
