"""The autoscaler with a real coordinator and simulated machines."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import httpx
import pytest
import pytest_asyncio

from gigafactory.autoscale.provider import CannotProvide, ScalingTarget
from gigafactory.autoscale.scaler import Scaler, ScalingNotice
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import Forbidden
from gigafactory.domain.scaling.scale_target import Shape
from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import Server, Worker, a_server, a_worker
from tests.support.factory.local_fleet import Clock
from tests.support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

COOL_DOWN = timedelta(seconds=60)
START_WITHIN = timedelta(seconds=600)


class Stable:
    """A provider of simulated machines: each is a worker that joins the fleet if `joins` is set."""

    list_is_complete = True

    def __init__(self, world: "World", stack: AsyncExitStack) -> None:
        self._world = world
        self._stack = stack
        self.workers: dict[str, Worker] = {}
        self.there: set[str] = set()
        self.stopped: list[str] = []
        self.started: list[str] = []
        self.broken: str | None = None
        self.joins = True

    async def list_machines(self) -> frozenset[str]:
        if self.broken == "list":
            raise CannotProvide("the cloud does not answer")
        return frozenset(self.there)

    async def start(self, name: str) -> None:
        if self.broken == "start":
            raise CannotProvide("no more machines to be had")
        self.started.append(self._world.short(name))
        self.there.add(name)
        if self.joins:
            joined = a_worker(self._world.server, name, products=[self._world.product])
            worker = await self._stack.enter_async_context(joined)
            await worker.beat(engines={"claude": {"seats": 1}}, slots=1)
            self.workers[self._world.short(name)] = worker

    async def stop(self, name: str) -> None:
        if self.broken == "stop":
            raise CannotProvide("it does not go")
        self.stopped.append(self._world.short(name))
        self.there.discard(name)


class World:
    """A coordinator, a provider and an autoscaler, all of one product."""

    def __init__(self, server: Server, clock: Clock, people: httpx.AsyncClient) -> None:
        self.server = server
        self.clock = clock
        self.people = people
        self.product = people.headers["x-product-id"]
        self.said: list[ScalingNotice] = []
        self.client: AsyncClient
        self.stable: Stable
        self.scaler: Scaler

    @property
    def shape(self) -> Shape:
        return Shape(
            name="mac",
            factories=f"{self.product}.",
            capabilities=("os:mac",),
            engines={"claude": 1},
            products=(self.product,),
            maximum=2,
        )

    def scaled(self, cool_down: timedelta = COOL_DOWN) -> ScalingTarget:
        return ScalingTarget(self.shape, cool_down, START_WITHIN, self.stable)

    def short(self, text: str) -> str:
        """Shorten the names of machines in a text to `m1`, `m2` and so on."""
        return text.replace(f"{self.product}.", "m")

    async def look(self) -> list[str]:
        """Run one step of the autoscaler to its end and return the new notices."""
        before = len(self.said)
        await self.scaler.step()
        await self.scaler.wait_until_idle()
        return [self.short(result.says) for result in self.said[before:]]

    async def submit(self, count: int = 1) -> None:
        jobs = [{"manifest": {"engine": "claude", "name": f"job-{n}"}} for n in range(count)]
        assert (await self.people.post("/jobs", json={"jobs": jobs})).status_code == 201

    def pass_time(self, span: timedelta) -> None:
        self.clock.advance(span + timedelta(seconds=1))

    async def fleet(self) -> dict[str, bool]:
        """Return whether each factory of the product drains, by short name."""
        result = (await self.people.get("/factories")).json()["factories"]
        mine = [one for one in result if one["products"] == [self.product]]
        return {self.short(one["id"]): one["draining"] for one in mine}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def timed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Server, Clock]]:
    clock = Clock()
    async with a_server(tmp_path_factory.mktemp("server"), clock=clock) as server:
        yield server, clock


@pytest_asyncio.fixture(loop_scope="module")
async def world(timed: tuple[Server, Clock], product: str) -> AsyncIterator[World]:
    server, clock = timed
    async with AsyncExitStack() as stack:
        people = await stack.enter_async_context(server.client(product=product))
        client = AsyncClient(server.url, server.admin_token, product=product)
        await stack.enter_async_context(client)
        made = World(server, clock, people)
        made.client = client
        made.stable = Stable(made, stack)
        made.scaler = Scaler(client, [made.scaled()], made.said.append)
        yield made


async def test_scales_up_from_zero_and_back_down(world: World) -> None:
    assert await world.look() == ["mac: nothing waits, 0 at work, 0 wanted, 0 there; all is well"]
    assert await world.look() == []
    await world.submit(3)
    assert await world.look() == ["mac: 2 waiting, 0 at work, 2 wanted, 0 there; starts m1, m2"]
    grants = {name: await one.granted() for name, one in world.stable.workers.items()}
    await world.look()
    assert world.said[-1].live == 2
    for name, worker in world.stable.workers.items():
        for stage in ("building", "review"):
            assert (await worker.report(grants[name], stage=stage)).status_code == 200
    last = await world.stable.workers["m2"].granted()
    await world.look()
    world.pass_time(COOL_DOWN)
    for worker in world.stable.workers.values():
        await worker.beat(engines={"claude": {"seats": 1}}, slots=1, running=[])
    await world.look()
    assert await world.fleet() == {"m1": True, "m2": False}
    assert last["job"]["name"] == "job-2"


async def test_starting_machine_is_not_started_twice(world: World) -> None:
    world.stable.joins = False
    await world.submit()
    for _ in range(3):
        await world.look()
    assert world.stable.started == ["m1"]


async def test_machine_that_never_joins_is_stopped_reported_and_retried_later(
    world: World,
) -> None:
    world.stable.joins = False
    await world.submit()
    await world.look()
    await world.look()
    world.pass_time(START_WITHIN)
    said = await world.look()
    assert said[0] == "mac: m1 was started but has not joined"
    assert "ends m1" in said[1]
    assert world.stable.stopped == ["m1"]
    assert "starts again at" in (await world.look())[0]
    world.stable.joins = True
    world.pass_time(timedelta(seconds=10))
    await world.look()
    assert world.stable.started == ["m1", "m1"]
    assert list(await world.fleet()) == ["m1"]


async def test_failed_start_is_reported_and_retried_later(world: World) -> None:
    world.stable.broken = "start"
    await world.submit()
    assert "mac: cannot start m1: no more machines to be had" in await world.look()
    assert "starts again at" in (await world.look())[0]
    world.stable.broken = None
    world.pass_time(timedelta(seconds=3))
    await world.look()
    assert world.stable.started == ["m1"]


async def test_nothing_is_done_while_the_existing_machines_are_unknown(world: World) -> None:
    world.stable.broken = "list"
    await world.submit()
    assert await world.look() == ["mac: not scaled: the cloud does not answer"]
    assert await world.look() == []
    world.stable.broken = None
    assert "starts m1" in (await world.look())[0]


async def test_dead_machine_is_reported_deregistered_and_replaced(world: World) -> None:
    await world.submit()
    await world.look()
    await world.look()
    world.stable.there.clear()
    said = await world.look()
    assert said[0] == "mac: m1 died"
    assert await world.fleet() == {}
    world.pass_time(timedelta(seconds=3))
    await world.look()
    assert list(await world.fleet()) == ["m1"]


async def test_lost_machine_keeps_its_leases_until_they_expire(world: World) -> None:
    await world.submit()
    await world.look()
    await world.stable.workers["m1"].granted()
    world.stable.there.clear()
    await world.look()
    assert list(await world.fleet()) == ["m1"], "its work is not taken from it"
    world.pass_time(timedelta(seconds=3))
    await world.look()
    assert world.stable.started == ["m1", "m2"]


async def test_drained_machine_that_does_not_end_is_stopped_with_retries(
    world: World,
) -> None:
    await world.stable.start(f"{world.product}.1")
    await world.look()
    world.pass_time(COOL_DOWN)
    assert "drains m1" in (await world.look())[-1]
    world.stable.broken = "stop"
    await until(lambda: drained(world))
    await world.look()
    world.pass_time(timedelta(seconds=31))
    assert "mac: cannot stop m1: it does not go" in await world.look()
    assert await world.look() != []
    world.stable.broken = None
    world.pass_time(timedelta(seconds=31))
    await world.look()
    assert world.stable.stopped == ["m1"]
    await world.look()
    assert await world.fleet() == {}


async def drained(world: World) -> bool:
    return (await world.fleet()).get("m1", False)


async def test_dry_run_reports_decisions_and_starts_nothing(world: World) -> None:
    world.scaler = Scaler(world.client, [world.scaled()], world.said.append, dry_run=True)
    await world.submit()
    assert await world.look() == ["mac: 1 waiting, 0 at work, 1 wanted, 0 there; starts m1"]
    assert (world.stable.started, await world.fleet()) == ([], {})


async def test_machine_lacking_capabilities_of_its_shape_is_reported(world: World) -> None:
    await world.stable.start(f"{world.product}.1")
    await world.stable.workers["m1"].beat(capabilities=[], engines={}, slots=1)
    said = await world.look()
    assert said[0] == "mac: m1 lacks capabilities of its shape: engine:claude, os:mac"


class Flaky(httpx.AsyncBaseTransport):
    """A transport to the coordinator that can be cut."""

    def __init__(self) -> None:
        self._real = httpx.AsyncHTTPTransport()
        self.cut = True

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.cut:
            raise httpx.ConnectError("cut", request=request)
        return await self._real.handle_async_request(request)

    async def aclose(self) -> None:
        await self._real.aclose()


@asynccontextmanager
async def following(scaler: Scaler) -> AsyncIterator[None]:
    task = asyncio.create_task(scaler.run(30.0))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_scaler_waits_for_the_coordinator_and_wakes_on_an_event(world: World) -> None:
    way = Flaky()
    client = AsyncClient(
        world.server.url, world.server.admin_token, product=world.product, transport=way
    )
    said = world.said
    async with client, following(Scaler(client, [world.scaled()], said.append)):
        await until(lambda: any("scaling is paused" in result.says for result in said))
        way.cut = False
        await until(lambda: "all is well" in said[-1].says)
        await world.submit()
        await until(lambda: world.stable.started == ["m1"], within_s=10)


async def test_token_without_permission_stops_the_scaler(world: World) -> None:
    await world.stable.start(f"{world.product}.1")
    viewer = await world.server.token("vic", Role.VIEWER)
    async with AsyncClient(world.server.url, viewer) as client:
        scaler = Scaler(client, [world.scaled(timedelta())], world.said.append)
        await scaler.step()
        world.pass_time(timedelta())
        with pytest.raises(Forbidden):
            await scaler.step()
