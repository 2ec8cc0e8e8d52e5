"""Halt, drain and deregister under load: no grant follows them."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from gigafactory.domain.job.job import Event
from tests.services.fork_server import ForkServer
from tests.support.crash.history_checker import (
    find_violations,
    open_store,
    read_requests,
    read_store,
)
from tests.support.crash.restarting_coordinator import (
    CoordinatorProcess,
    RestartingCoordinator,
    running_coordinator,
)
from tests.support.crash.retrying_client import (
    Factory,
    ReceivedResponse,
    RetryingClient,
    admin_client,
    enroll_factory,
)
from tests.support.polling import until

FACTORIES = 6
SUBMITTERS = 4
JOBS = 40
"""Of each product, handed in while the rest goes on."""
PRODUCTS = ("notes", "shop")


class Submitter(RetryingClient):
    """A person who submits jobs of one product."""

    product = "notes"

    def headers(self, process: CoordinatorProcess) -> dict[str, str]:
        """Return the headers of the person and the product."""
        return super().headers(process) | {"x-product-id": self.product}


class Load:
    """Factories that claim and build, and people who submit jobs, until `over` is set."""

    def __init__(self, admin: RetryingClient, places: Sequence[RestartingCoordinator]) -> None:
        self.admin = admin
        self._places = places
        self.claims: dict[str, int] = {}
        self.built = 0
        self.handed_in = 0
        self.over = False
        self.gone: set[str] = set()
        self._numbers = iter(range(10_000))

    async def work(self) -> None:
        """Enroll the factories, then claim, build and submit concurrently."""
        names = [f"mac-{number}" for number in range(FACTORIES)]
        found = await asyncio.gather(*(enroll_factory(self.admin, name) for name in names))
        async with asyncio.TaskGroup() as tasks:
            for number, factory in enumerate(found):
                place = self._places[number % len(self._places)]
                tasks.create_task(self._claim(self._at(factory, place)))
            for number in range(SUBMITTERS):
                product = PRODUCTS[number % len(PRODUCTS)]
                tasks.create_task(self.hand_in(product, JOBS // 2))

    def _at(self, factory: Factory, place: RestartingCoordinator) -> Factory:
        """Return the same factory as a client of this coordinator."""
        token = factory.headers(self.admin.address.process)["authorization"].removeprefix("Bearer ")
        return Factory(self.admin.http, place, self.admin.responses, factory.who, token)

    async def hand_in(self, product: str, jobs: int) -> None:
        """Submit a number of jobs of a product."""
        person = Submitter(self.admin.http, self.admin.address, self.admin.responses)
        person.product = product
        for _ in range(jobs):
            await person.submit(f"{product}-{next(self._numbers)}")
            self.handed_in += 1

    async def _claim(self, factory: Factory) -> None:
        await factory.beat()
        while not self.over and factory.who not in self.gone:
            answer = await factory.ask("POST", "/claim", factory.identity | {"wait": 0.05})
            if not answer.ok:
                assert await self._is_gone(factory, answer)
                return
            self.claims[factory.who] = self.claims.get(factory.who, 0) + 1
            if answer.body is not None:
                await self._build(factory, answer.body)

    async def _build(self, factory: Factory, grant: dict[str, Any]) -> None:
        if (await factory.report(grant, stage="building")).ok:
            done = await factory.report(grant, stage="review")
            self.built += done.ok

    async def _is_gone(self, factory: Factory, answer: ReceivedResponse) -> bool:
        await until(lambda: factory.who in self.gone)
        return answer.status in {401, 404}

    async def asked_again(self) -> None:
        """Wait until every factory has made a complete new claim."""
        before = dict(self.claims)
        live = [name for name in before if name not in self.gone]
        await until(lambda: all(self.claims[name] >= before[name] + 2 for name in live))

    async def more_built(self, jobs: int) -> None:
        """Wait until this many more jobs are built."""
        wanted = self.built + jobs
        await until(lambda: self.built >= wanted)


async def meddle(load: Load) -> None:
    """Halt the fleet, then one product; drain one factory, then deregister one."""
    admin = load.admin
    await load.more_built(8)
    for product in (None, "notes"):
        sent = {"product": product} if product else {}
        (await admin.ask("POST", "/halt", sent)).require()
        await asyncio.gather(*(load.hand_in(each, 3) for each in PRODUCTS))
        await load.asked_again()
        if product is not None:
            await load.more_built(3)
        (await admin.ask("POST", "/resume", sent)).require()
        await load.more_built(5)
    (await admin.ask("POST", "/factories/mac-0/drain", {})).require()
    await load.hand_in("notes", 6)
    await load.asked_again()
    await load.more_built(3)
    (await admin.ask("POST", "/factories/mac-0/drain", {"draining": False})).require()
    (await admin.ask("DELETE", "/factories/mac-1")).require()
    load.gone.add("mac-1")
    await load.hand_in("shop", 6)
    await until(lambda: load.built >= load.handed_in - len(load.gone))
    load.over = True


def breaches(events: Sequence[Event]) -> list[str]:
    """Return the grants and offers that follow a halt, drain or deregistration in the feed."""
    halted: set[str] = set()
    closed: set[str] = set()
    found: list[str] = []
    for event in events:
        match event.type:
            case "halted":
                halted.add(event.data["product"])
            case "resumed":
                halted.discard(event.data["product"])
            case "factory_draining" | "factory_deregistered":
                closed.add(event.data["factoryId"])
            case "factory_resumed" | "factory_enrolled":
                closed.discard(event.data["factoryId"])
            case "assigned" | "offered":
                if {"*", event.product_id} & halted or event.data["factoryId"] in closed:
                    found.append(f"{event.type} at {event.position}: {event.data['factoryId']}")
            case _:
                pass
    return found


def between(events: Sequence[Event], start: str, end: str) -> list[Event]:
    """Return the grants between the last event of one type and the next of another."""
    kinds = [event.type for event in events]
    first = len(kinds) - 1 - kinds[::-1].index(start)
    return [e for e in events[first : kinds.index(end, first)] if e.type == "assigned"]


async def halted_under_load(
    coordinators: Sequence[RestartingCoordinator], where: str | Path
) -> None:
    async with AsyncExitStack() as stack:
        for coordinator in coordinators:
            await stack.enter_async_context(running_coordinator(coordinator))
        admin = await stack.enter_async_context(admin_client(coordinators[0]))
        load = Load(admin, coordinators)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load.work())
            tasks.create_task(meddle(load))
        for coordinator in coordinators:
            await coordinator.stop()
    async with open_store(where) as kept:
        histories = (coordinator.history for coordinator in coordinators)
        assert await find_violations(kept, read_requests(*histories), admin.responses) == []
        events = [entry.event for entry in (await read_store(kept))[0]]
    kinds = [event.type for event in events]
    assert [kinds.count(kind) for kind in ("halted", "resumed")] == [2, 2]
    assert breaches(events) == []
    meanwhile = between(events, "halted", "resumed")
    assert {event.product_id for event in meanwhile} == {"shop"}, "the other product goes on"
    assert kinds[kinds.index("factory_deregistered") :].count("assigned") > 0


async def test_no_grant_follows_a_halt_or_drain_on_the_embedded_store(
    forks: ForkServer, tmp_path: Path
) -> None:
    await halted_under_load(
        [RestartingCoordinator(forks, tmp_path)], tmp_path / "data" / "fleet.db"
    )


async def test_no_grant_follows_a_halt_or_drain_with_two_coordinators(
    forks: ForkServer, database: str, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    await halted_under_load(
        [RestartingCoordinator(forks, each, store=database) for each in folders], database
    )
