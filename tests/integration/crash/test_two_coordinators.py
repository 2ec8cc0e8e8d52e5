"""Two coordinators on one database: one dispatches, and when it is gone the other does."""

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
from tests.support.crash.history_checker import asked_in, faults
from tests.support.crash.load import Crowd
from tests.support.crash.restarting_coordinator import Life, Lives, living
from tests.support.crash.retrying_client import Caller, Factory, calling, enrolled
from tests.support.crash.scenarios import offer_of
from tests.support.polling import until

JOBS = 100
FACTORIES = 6
KILLED_AFTER = 30
SWITCH_AFTER_S = 0.05


class Either:
    """Two coordinators, of which one is asked until it does not answer."""

    def __init__(self, first: Lives, second: Lives) -> None:
        self._now, self._other = first, second

    @property
    def life(self) -> Life:
        return self._now.life

    async def after(self, life: Life) -> None:
        await asyncio.sleep(SWITCH_AFTER_S)
        if self.life is life:
            self._now, self._other = self._other, self._now


def with_(factory: Factory, caller: Caller, place: Either) -> Factory:
    """The same factory, which turns to these coordinators."""
    token = factory.headers(caller.place.life)["authorization"].removeprefix("Bearer ")
    return Factory(caller.http, place, caller.notes, factory.who, token)


class Pair:
    """The two, and who of them leads."""

    def __init__(self, store: Store, one: Lives, other: Lives) -> None:
        self.store = store
        self.lives = (one, other)
        self._names = {lives.folder: _name(lives) for lives in self.lives}

    def name(self, lives: Lives) -> str:
        """What a coordinator calls itself in the store."""
        return self._names[lives.folder]

    async def leader(self) -> tuple[Lives, Lives]:
        """Who leads, and who does not."""
        record = await self.store.record(Leader, "dispatcher")
        assert record is not None
        one, other = self.lives
        return (one, other) if record.holder == self.name(one) else (other, one)

    async def leads(self, lives: Lives) -> bool:
        """Whether it has the duty by what the store says."""
        record = await self.store.record(Leader, "dispatcher")
        return record is not None and record.holder == self.name(lives)

    async def faults(self, caller: Caller) -> list[str]:
        """What is wrong by what both have noted."""
        histories = (lives.history for lives in self.lives)
        return await faults(self.store, asked_in(*histories), caller.notes)


def _name(lives: Lives) -> str:
    name: str = json.loads(lives.history.read_text().splitlines()[0])["by"]
    return name


@asynccontextmanager
async def both(one: Lives, other: Lives, database: str) -> AsyncIterator[Pair]:
    """Two coordinators that serve."""
    async with living(one), living(other), PostgresStore.open(database) as store:
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


async def listen(crowd: Crowd, factory: Factory) -> None:
    """Take what is offered, and do it, for ever."""
    async for message in factory.messages():
        if message.event == "offer":
            answer = await factory.accept(message.data)
            if answer.ok:
                await crowd.do(factory, answer.body)
            else:
                assert answer.body["code"] == "offer_gone", answer


async def test_when_the_dispatcher_is_killed_the_other_goes_on(
    forks: ForkServer, database: str, folders: tuple[Path, Path]
) -> None:
    one, other = (Lives(forks, folder, store=database) for folder in folders)
    async with both(one, other, database) as pair, calling(Either(one, other)) as admin:
        crowd = Crowd(admin, jobs=JOBS, factories=FACTORIES)
        await crowd.gather()
        ways = [(one, other), (other, one)]
        split = [
            with_(factory, admin, Either(*ways[number % 2]))
            for number, factory in enumerate(crowd.factories)
        ]
        listening = [asyncio.create_task(listen(crowd, factory)) for factory in split]
        handing_in = [asyncio.create_task(crowd.hand_in()) for _ in range(4)]

        async def done(count: int) -> bool:
            assert not [task.result() for task in listening if task.done()]
            return len(crowd.done) >= count

        await until(lambda: done(KILLED_AFTER))
        leader, heir = await pair.leader()
        await leader.end()
        await until(lambda: pair.leads(heir))
        await until(lambda: done(JOBS))
        await asyncio.gather(*handing_in)
        factories = await pair.store.records(FactoryRecord)
        assert {factory.streaming for factory in factories} == {pair.name(heir)}
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        assert await pair.faults(admin) == []
        assert await crowd.faults(pair.store) == []


async def test_a_dispatcher_that_was_stopped_past_its_reign_offers_nothing_any_more(
    forks: ForkServer, database: str, folders: tuple[Path, Path]
) -> None:
    stopped = Lives(forks, folders[0], store=database, dooms=["asked:offer:1:STOP"])
    heir = Lives(forks, folders[1], store=database)
    async with both(stopped, heir, database) as pair, calling(heir) as admin:
        assert await pair.leads(stopped)
        factory = await enrolled(admin, "mac-1")
        factory.slots = 1
        messages = factory.messages()
        await anext(messages)
        late = await admin.submit("late")
        await until(lambda: _asked(stopped, "offer"))
        # The factory is busy from now on: the successor has no factory for the job, and nothing but
        # the end of its reign speaks against the offer that the stopped one has decided on.
        await admin.submit("urgent", priority="critical")
        grant = await factory.granted()
        assert grant["job"]["name"] == "urgent"
        await until(lambda: pair.leads(heir))
        before = await admin.job(late)
        os.kill(stopped.life.pid, signal.SIGCONT)
        await until(lambda: _refused(stopped, "offer"))
        assert await admin.job(late) == before
        await factory.build(grant)
        offer = await offer_of(messages, late)
        await factory.build((await factory.accept(offer)).require())
        await messages.aclose()
        assert await pair.faults(admin) == []
        assert not await pair.leads(stopped)


async def _asked(lives: Lives, verb: str) -> bool:
    return any(asked.what == verb for asked in asked_in(lives.history))


async def _refused(lives: Lives, verb: str) -> bool:
    offers = [asked for asked in asked_in(lives.history) if asked.what == verb]
    assert not any(asked.accepted for asked in offers)
    return any(asked.accepted is False for asked in offers)


async def test_a_stream_that_moved_to_another_coordinator_is_not_closed_by_the_first(
    forks: ForkServer, database: str, folders: tuple[Path, Path]
) -> None:
    first, second = (Lives(forks, folder, store=database) for folder in folders)
    async with both(first, second, database) as pair, calling(second) as admin:
        factory, another = await enrolled(admin, "mac-1"), await enrolled(admin, "mac-2")
        there = with_(factory, admin, Either(first, second)).messages()
        await anext(there)
        await until(lambda: _streams(pair, factory, first))
        os.kill(first.life.pid, signal.SIGSTOP)
        await there.aclose()
        here = factory.messages()
        await anext(here)
        await until(lambda: _streams(pair, factory, second))
        os.kill(first.life.pid, signal.SIGCONT)
        # It hears of the end of its own stream, and must not take it for the end of the other. When
        # it has dealt with a stream that came after that, it has dealt with this one.
        after = with_(another, admin, Either(first, second)).messages()
        await anext(after)
        await until(lambda: _streams(pair, another, first))
        await after.aclose()
        await until(lambda: _streams(pair, another, None))
        assert await _streams(pair, factory, second)
        job_id = await admin.submit("offered")
        offer = await offer_of(here, job_id)
        (await factory.accept(offer)).require()
        await here.aclose()


async def _streams(pair: Pair, factory: Factory, lives: Lives | None) -> bool:
    record = await pair.store.record(FactoryRecord, factory.who)
    assert record is not None
    return record.streaming == (pair.name(lives) if lives else None)
