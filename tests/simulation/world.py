"""One simulated fleet: set up in peace, then chaos, then peace again until everything settles."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from gigafactory.coordinator.coordinator import Coordinator, CoordinatorSettings
from gigafactory.coordinator.jobs.dag import JobDag
from gigafactory.coordinator.lifecycle.actions import ActionRequest
from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.tenancy.access import Caller, Role
from gigafactory.domain.tenancy.budget import BudgetTerms
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.store.memory import MemoryStore
from tests.simulation.ending import unsettled
from tests.simulation.factories import Machine, Make
from tests.simulation.followers import Follower
from tests.simulation.history import History
from tests.simulation.meddling import Meddler
from tests.simulation.money import open_budgets
from tests.simulation.network import Network
from tests.simulation.nodes import Ahead, Node
from tests.simulation.people import Person
from tests.simulation.ports import MemoryBlobs
from tests.simulation.roadmaps import Foreman
from tests.simulation.weather import CALM, Weather
from tests.support.builders import NOON

LEASE_TTL_S = 20.0
FLEET_SEATS: tuple[dict[str, int], ...] = ({"codex": 1}, {"claude": 1, "codex": 1}, {})
PRODUCTS = ("notes", "shop")
SETTLE_MAX_S = 250.0
LOOK_EVERY_S = 5.0
FRUGAL = 0.25
"""The share of worlds in which a product has a budget."""
SWITCHED = 0.1
"""The share of worlds in which dispatch modes change."""
FINISHING = 12
"""The number of rounds at the end in which people attend to roadmaps."""
PLANNED = 0.3
"""The share of worlds with roadmaps."""
WATCHED = 0.3
"""The share of worlds with followers of events."""

MAKES = (
    Make(mode="poll", slots=2, engines={"claude": 2}, capabilities=("os:mac", "has:xcode")),
    Make(mode="stream", slots=2, engines={"claude": 1, "codex": 1}, capabilities=("os:linux",)),
    Make(mode="gate", slots=1, engines={"codex": 1}, products=("notes",)),
    Make(mode="stream", slots=2, engines={"claude": 2}, capabilities=("has:xcode",)),
    Make(mode="poll", slots=1, engines={"claude": 1, "codex": 1}),
)


class World:
    """Everything that takes part in one history."""

    def __init__(self, seed: int, weather: Weather) -> None:
        """Draw everything from the seed."""
        self.seed = seed
        self.rng = rng = random.Random(seed)
        self.weather = weather
        self.history = History()
        self.store = MemoryStore()
        # Minutes begin at any time of a history, and with them the ticks of schedules.
        self.ahead = Ahead(rng.uniform(0.0, 60.0))
        self.fleet_seats = rng.choice(FLEET_SEATS)
        self.lease_ttl = timedelta(seconds=LEASE_TTL_S)
        self.frugal = self._chances("budgets").random() < FRUGAL
        ways = self._chances("ways")
        self.switched = ways if ways.random() < SWITCHED else None
        self.foreman: Foreman | None = None
        self.dags: list[JobDag] = []
        """What composites came to in the end, as it was told."""
        blobs = MemoryBlobs()
        self.nodes = [
            Node(
                f"c{number}",
                self.store,
                blobs,
                self._chances(f"coordinator {number}"),
                self.history,
                CoordinatorSettings(
                    coordinator_id=f"c{number}",
                    lease_ttl=self.lease_ttl,
                    fleet_seats=self.fleet_seats,
                ),
                CALM,
                self.ahead,
            )
            for number in range(weather.coordinators)
        ]
        self.network = Network(self.nodes, self._chances("network"), self.history, CALM)
        self.machines: list[Machine] = []
        self.people: dict[str, Person] = {}
        self.followers: list[Follower] = []
        self.unsettled: list[str] = []
        """Return the jobs that still waited at the end without a known reason."""
        self._background: list[asyncio.Future[None]] = []
        self._watching: list[asyncio.Task[None]] = []

    async def live(self) -> None:
        """The whole history."""
        await self._set_up()
        await self._chaos()
        await self._settle()
        for node in self.nodes:
            node.freeze()

    def _chances(self, of: str) -> random.Random:
        """Chances of their own for each: one more call here changes nothing over there."""
        return random.Random(f"{self.seed} {of}")

    def note(self, text: str) -> None:
        """Add a line to the replay of the seed."""
        self.history.note(asyncio.get_running_loop().time(), text)

    def _spawn(self, work: Awaitable[None]) -> None:
        self._background.append(asyncio.ensure_future(work))

    async def _set_up(self) -> None:
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            await node.up.wait()
        coordinator = self.nodes[0].coordinator
        assert coordinator is not None, "it was waited for"
        root = Caller(actor="user:root", role=Role.ADMIN, products=("*",))
        await self._hire(coordinator, root)
        for number, make in enumerate(self.rng.sample(MAKES, self.rng.choice((2, 3, 3)))):
            self.machines.append(await self._enroll(coordinator, root, f"m{number}", make))
        if self.weather.twins:
            first = self.machines[0]
            self.machines.append(self._machine(first.id, first.secret, first.make, "twin"))
        for machine in self.machines:
            machine.boot()
        self.meddler = Meddler(self.people["ann"], self.machines, self._chances("meddler"))
        self.treasurer = Meddler(self.people["ann"], self.machines, self._chances("treasurer"))
        if self.rng.random() < WATCHED:
            self._watch(None)

    def _watch(self, job_id: str | None) -> None:
        chances = self._chances(f"follower {job_id}")
        follower = Follower(self.people["ann"].secret, self.network, chances, job_id)
        self.followers.append(follower)
        self._watching.append(asyncio.create_task(follower.follow()))

    async def _hire(self, coordinator: Coordinator, root: Caller) -> None:
        for name, role, product in (
            ("ann", Role.ADMIN, "notes"),
            ("rob", Role.REVIEWER, "notes"),
            ("olga", Role.OPERATOR, "notes"),
            ("sam", Role.ADMIN, "shop"),
        ):
            scope = ("*",) if name == "ann" else (product,)
            made = await coordinator.tokens.issue(root, name, role, scope)
            chances = self._chances(name)
            self.people[name] = Person(name, made.secret, product, self.network, chances)
        planned = self._chances("roadmaps")
        if planned.random() < PLANNED:
            made = await coordinator.tokens.issue(root, "kim", Role.ADMIN, ("notes",))
            kim = Person("kim", made.secret, "notes", self.network, self._chances("kim"))
            self.foreman = Foreman(kim, planned)

    async def _enroll(
        self, coordinator: Coordinator, root: Caller, name: str, make: Make
    ) -> Machine:
        invitation = await coordinator.enrolment.invite(root, make.products)
        joined = await coordinator.enrolment.enroll(invitation.secret, name)
        return self._machine(name, joined.token, make)

    def _machine(self, name: str, secret: str, make: Make, label: str = "") -> Machine:
        chances = self._chances(f"machine {name} {label}")
        return Machine(name, secret, make, self.network, chances, LEASE_TTL_S, label)

    async def _chaos(self) -> None:
        weather = self.weather
        self.network.weather = weather
        for node in self.nodes:
            node.clear_up(weather)
        ann, rob, olga, sam = (self.people[name] for name in ("ann", "rob", "olga", "sam"))
        within = weather.chaos_s * 0.7
        self._spawn(ann.submit_some(self.rng.randint(2, 3), within))
        self._spawn(sam.submit_some(self.rng.randint(1, 2), within))
        self._spawn(olga.submit_some(self.rng.randint(0, 2), within))
        for work in (rob.review(), olga.operate(), sam.review()):
            self._spawn(work)
        if weather.meddling:
            self._spawn(self.meddler.meddle(weather.meddling))
        if self.foreman is not None:
            self._spawn(self.foreman.lead(within))
        if self.frugal:
            self._spawn(self.treasurer.save(within))
        if self.switched is not None:
            switcher = Meddler(ann, self.machines, self.switched)
            self._spawn(switcher.switch_ways(within))
        troubles: tuple[tuple[float, Callable[[], Awaitable[None]]], ...] = (
            (weather.coordinator_crashes, self._crash_a_coordinator),
            (weather.machine_crashes, self._crash_a_machine),
            (weather.stalls, self._stall_a_coordinator),
            (weather.pauses, self._pause_a_machine),
            (weather.outages, self._outage),
            (weather.clock_jumps, self._clock_jump),
        )
        for a_minute, trouble in troubles:
            if a_minute:
                self._spawn(self._again_and_again(a_minute, trouble))
        await asyncio.sleep(weather.chaos_s / 3)
        if self.followers and self.store._jobs:  # noqa: SLF001 - seen from outside
            self._watch(next(iter(self.store._jobs)))  # noqa: SLF001 - the same
        await asyncio.sleep(weather.chaos_s * 2 / 3)

    async def _again_and_again(
        self, a_minute: float, trouble: Callable[[], Awaitable[None]]
    ) -> None:
        while True:
            await asyncio.sleep(self.rng.expovariate(a_minute / 60.0))
            await trouble()

    async def _crash_a_coordinator(self) -> None:
        node = self.rng.choice(self.nodes)
        gently = self.rng.random() < 0.25
        self.note(f"{node.name} {'stops' if gently else 'crashes'}")
        await (node.stop() if gently else node.crash())
        await asyncio.sleep(self.rng.choice((0.1, 2.0, 25.0)) * self.rng.random())
        node.start()

    async def _stall_a_coordinator(self) -> None:
        node = self.rng.choice(self.nodes)
        lasts = self.rng.uniform(1.0, 9.0)
        self.note(f"{node.name} stands still for {lasts:.1f} s")
        node.stall(asyncio.get_running_loop().time() + lasts)
        await asyncio.sleep(lasts)

    async def _crash_a_machine(self) -> None:
        machine = self.rng.choice(self.machines)
        self.note(f"{machine.instance_id} crashes")
        machine.crash()
        await asyncio.sleep(self.rng.choice((0.1, 5.0, 40.0)) * self.rng.random())
        machine.boot()

    async def _pause_a_machine(self) -> None:
        machine = self.rng.choice(self.machines)
        self.note(f"{machine.instance_id} sleeps")
        whenever = self.rng.uniform(1.0, 2.2 * LEASE_TTL_S)
        about_expiry = self.rng.uniform(0.7, 1.15) * LEASE_TTL_S
        await machine.pause(self.rng.choice((whenever, about_expiry)))

    async def _outage(self) -> None:
        nodes = self.nodes if self.rng.random() < 0.5 else [self.rng.choice(self.nodes)]
        lasts = self.rng.choice((0.5, 5.0, 45.0)) * self.rng.uniform(0.4, 1.0)
        self.note(f"no store for {', '.join(n.name for n in nodes)} for {lasts:.1f} s")
        moment, begun = self.history.moment(), self._now()
        for node in nodes:
            node.cut_off(asyncio.get_running_loop().time() + lasts)
        await asyncio.sleep(lasts)
        if len(nodes) == len(self.nodes):
            self.history.gaps.append((moment, begun, self._now()))

    async def _clock_jump(self) -> None:
        by = self.rng.choice((0.5, 8.0, 60.0)) * self.rng.uniform(-1.0, 1.0)
        self.note(f"the wall clocks are set by {by:.1f} s")
        self.ahead.seconds += by
        await asyncio.sleep(0)

    def _now(self) -> datetime:
        return self.time_of(asyncio.get_running_loop().time())

    def time_of(self, at: float) -> datetime:
        """The server's time at a second of the loop: no step of a wall clock changes it."""
        return NOON + timedelta(seconds=at + self.ahead.at_first)

    async def _settle(self) -> None:
        """No more faults; everybody comes back, and work goes on until nothing is left to do."""
        self.note("peace")
        background, self._background = self._background, []
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        self.network.weather = CALM
        for node in self.nodes:
            node.clear_up(CALM)
            node.start()
        for node in self.nodes:
            await node.up.wait()
        for machine in self.machines:
            await self._bring_back(machine)
        await self._stop_schedules()
        await self._until_settled()
        if self.foreman is not None:
            told = [await self.foreman.look(job) for job in await self.foreman.composites()]
            self.dags = [dag for dag in told if dag is not None]

    async def _bring_back(self, machine: Machine) -> None:
        machine.calm = True
        # Engines that could not be used are detected again.
        machine.versions += 1
        if machine.label:
            # Two processes under one id end each other's leases for as long as both run.
            machine.crash()
        elif not machine.running:
            machine.boot()
        await machine.pause(0.0)

    async def _care(self) -> None:
        """Undo what was done to the fleet; requests that got delayed may do it again."""
        records = list(self.store._records.values())  # noqa: SLF001 - seen from outside
        for record in records:
            if isinstance(record, HaltSwitch) and record.halted:
                await self.meddler.turn(record.product_id, halted=False)
            if isinstance(record, Factory) and record.draining:
                await self.meddler.drain(record.id, draining=False)
        if self.foreman is not None:
            for job in await self.foreman.composites():
                await self.foreman.let_go_on(job)
        for budget in open_budgets(self.store):
            await self.treasurer.budget(budget.product_id, BudgetTerms())
            await self.treasurer.go_on(budget.product_id)
        enrolled = {record.id for record in records if isinstance(record, Factory)}
        for machine in self.machines:
            if machine.running and (machine.lost_token or machine.id not in enrolled):
                await self.meddler.let_back_in(machine)

    async def _stop_schedules(self) -> None:
        for job in list(self.store._jobs.values()):  # noqa: SLF001 - seen from outside
            if job.terms.schedule is not None and not job.finished:
                await self.people["ann"].act(job.id, "cancel", ActionRequest(reason="enough"))

    async def _until_settled(self) -> None:
        loop = asyncio.get_running_loop()
        if self.foreman is not None:
            for _ in range(FINISHING):
                await self._care()
                await self.foreman.finish()
                await asyncio.sleep(LOOK_EVERY_S)
        end = loop.time() + SETTLE_MAX_S
        while loop.time() < end:
            await self._care()
            await asyncio.sleep(LOOK_EVERY_S)
            if not unsettled(self.store, self.machines):
                # Late duplicates and old news are still under way.
                await asyncio.sleep(LOOK_EVERY_S * 2)
                if not unsettled(self.store, self.machines):
                    return
        self.unsettled = unsettled(self.store, self.machines)
