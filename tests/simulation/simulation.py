"""One simulated fleet: a calm set-up, a time of faults, and a calm end until jobs settle."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from itertools import pairwise

from gigafactory.coordinator.coordinator import Coordinator, CoordinatorSettings
from gigafactory.coordinator.jobs.dag import JobDag
from gigafactory.coordinator.lifecycle.actions import ActionRequest
from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.tenancy.access import Caller, Role
from gigafactory.domain.tenancy.budget import BudgetTerms
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.store.memory import MemoryStore
from tests.simulation.budget_checks import open_budgets
from tests.simulation.factories import Machine, MachineSpec
from tests.simulation.faults import CALM, FaultRates
from tests.simulation.followers import Follower
from tests.simulation.history import History
from tests.simulation.network import Network
from tests.simulation.nodes import ClockOffset, Node
from tests.simulation.operator_actions import FleetOperator
from tests.simulation.people import Person
from tests.simulation.ports import MemoryBlobs
from tests.simulation.roadmaps import RoadmapOwner
from tests.simulation.unsettled_jobs import unsettled
from tests.support.builders import NOON

LEASE_TTL_S = 20.0
FLEET_SEATS: tuple[dict[str, int], ...] = ({"codex": 1}, {"claude": 1, "codex": 1}, {})
PRODUCTS = ("notes", "shop")
SETTLE_MAX_S = 250.0
CHECK_INTERVAL_S = 5.0
BUDGET_SHARE = 0.25
"""The share of simulations in which a product has a budget."""
MODE_CHANGE_SHARE = 0.1
"""The share of simulations in which dispatch modes change."""
ROADMAP_ROUNDS = 12
"""The number of rounds at the end in which the owner attends to roadmaps."""
ROADMAP_SHARE = 0.3
"""The share of simulations with roadmaps."""
KILLER_SHARE = 0.1
"""The share of simulations in which some jobs kill the processes that run them."""
KILLER_TITLES = ("-0-0",)
"""The first job of each person."""
NEIGHBOR_SHARE = 0.1
"""The share of simulations in which machines accept offers to others."""
FOLLOWER_SHARE = 0.3
"""The share of simulations with followers of events."""

MACHINE_SPECS = (
    MachineSpec(mode="poll", slots=2, engines={"claude": 2}, capabilities=("os:mac", "has:xcode")),
    MachineSpec(
        mode="stream", slots=2, engines={"claude": 1, "codex": 1}, capabilities=("os:linux",)
    ),
    MachineSpec(mode="gate", slots=1, engines={"codex": 1}, products=("notes",)),
    MachineSpec(mode="stream", slots=2, engines={"claude": 2}, capabilities=("has:xcode",)),
    MachineSpec(mode="poll", slots=1, engines={"claude": 1, "codex": 1}),
)


class Simulation:
    """All participants of one history."""

    def __init__(self, seed: int, faults: FaultRates) -> None:
        """Draw all parameters from the seed."""
        self.seed = seed
        self.rng = rng = random.Random(seed)
        self.faults = faults
        self.history = History()
        self.store = MemoryStore()
        # A random offset within a minute, so that ticks of schedules fall anywhere in a history.
        self.clock_offset = ClockOffset(rng.uniform(0.0, 60.0))
        self.fleet_seats = rng.choice(FLEET_SEATS)
        self.lease_ttl = timedelta(seconds=LEASE_TTL_S)
        self.has_budget = self._rng_for("budgets").random() < BUDGET_SHARE
        mode_rng = self._rng_for("ways")
        self.mode_rng = mode_rng if mode_rng.random() < MODE_CHANGE_SHARE else None
        self.roadmap_owner: RoadmapOwner | None = None
        self.dags: list[JobDag] = []
        """The composites at the end, as the coordinator returns them."""
        blobs = MemoryBlobs()
        self.nodes = [
            Node(
                f"c{number}",
                self.store,
                blobs,
                self._rng_for(f"coordinator {number}"),
                self.history,
                CoordinatorSettings(
                    coordinator_id=f"c{number}",
                    lease_ttl=self.lease_ttl,
                    fleet_seats=self.fleet_seats,
                ),
                CALM,
                self.clock_offset,
            )
            for number in range(faults.coordinators)
        ]
        self.network = Network(self.nodes, self._rng_for("network"), self.history, CALM)
        self.machines: list[Machine] = []
        self.people: dict[str, Person] = {}
        self.followers: list[Follower] = []
        self.unsettled: list[str] = []
        """The jobs that still wait at the end without a known reason."""
        self._background: list[asyncio.Future[None]] = []
        self._follower_tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Run the whole history."""
        await self._set_up()
        await self._run_with_faults()
        await self._settle()
        await self.operator.reuse_key()
        # Followers read the last events.
        await asyncio.sleep(CHECK_INTERVAL_S)
        for node in self.nodes:
            node.freeze()

    def _rng_for(self, part: str) -> random.Random:
        """Return a separate generator for one part: draws elsewhere do not change it."""
        # The names of the parts are input of the generators: a new name changes every history.
        return random.Random(f"{self.seed} {part}")

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
        assert coordinator is not None, "the coordinator is up"
        root = Caller(actor="user:root", role=Role.ADMIN, products=("*",))
        await self._create_people(coordinator, root)
        for number, spec in enumerate(self.rng.sample(MACHINE_SPECS, self.rng.choice((2, 3, 3)))):
            self.machines.append(await self._enroll(coordinator, root, f"m{number}", spec))
        if self.faults.duplicate_ids:
            first = self.machines[0]
            self.machines.append(self._machine(first.id, first.secret, first.spec, "twin"))
        self._set_up_troubles()
        for machine in self.machines:
            machine.boot()
        self.operator = FleetOperator(self.people["ann"], self.machines, self._rng_for("meddler"))
        self.budget_operator = FleetOperator(
            self.people["ann"], self.machines, self._rng_for("treasurer")
        )
        if self.rng.random() < FOLLOWER_SHARE:
            self._follow(None)

    def _set_up_troubles(self) -> None:
        if self._rng_for("killer jobs").random() < KILLER_SHARE:
            for machine in self.machines:
                machine.killer_titles = KILLER_TITLES
        if self._rng_for("neighbors").random() < NEIGHBOR_SHARE:
            for machine, other in pairwise(self.machines):
                machine.neighbor, other.neighbor = other, machine

    def _follow(self, job_id: str | None) -> None:
        rng = self._rng_for(f"follower {job_id}")
        follower = Follower(self.people["ann"].secret, self.network, rng, job_id)
        self.followers.append(follower)
        self._follower_tasks.append(asyncio.create_task(follower.follow()))

    async def _create_people(self, coordinator: Coordinator, root: Caller) -> None:
        for name, role, product in (
            ("ann", Role.ADMIN, "notes"),
            ("rob", Role.REVIEWER, "notes"),
            ("olga", Role.OPERATOR, "notes"),
            ("sam", Role.ADMIN, "shop"),
        ):
            scope = ("*",) if name == "ann" else (product,)
            issued = await coordinator.tokens.issue(root, name, role, scope)
            rng = self._rng_for(name)
            self.people[name] = Person(name, issued.secret, product, self.network, rng)
        roadmap_rng = self._rng_for("roadmaps")
        if roadmap_rng.random() < ROADMAP_SHARE:
            issued = await coordinator.tokens.issue(root, "kim", Role.ADMIN, ("notes",))
            kim = Person("kim", issued.secret, "notes", self.network, self._rng_for("kim"))
            self.roadmap_owner = RoadmapOwner(kim, roadmap_rng)

    async def _enroll(
        self, coordinator: Coordinator, root: Caller, name: str, spec: MachineSpec
    ) -> Machine:
        invitation = await coordinator.enrolment.invite(root, spec.products)
        joined = await coordinator.enrolment.enroll(invitation.secret, name)
        return self._machine(name, joined.token, spec)

    def _machine(self, name: str, secret: str, spec: MachineSpec, label: str = "") -> Machine:
        rng = self._rng_for(f"machine {name} {label}")
        return Machine(name, secret, spec, self.network, rng, LEASE_TTL_S, label)

    async def _run_with_faults(self) -> None:
        faults = self.faults
        self.network.faults = faults
        for node in self.nodes:
            node.set_fault_rates(faults)
        ann, rob, olga, sam = (self.people[name] for name in ("ann", "rob", "olga", "sam"))
        active_s = faults.fault_phase_s * 0.7
        self._spawn(ann.submit_some(self.rng.randint(2, 3), active_s))
        self._spawn(sam.submit_some(self.rng.randint(1, 2), active_s))
        self._spawn(olga.submit_some(self.rng.randint(0, 2), active_s))
        for work in (rob.review(), olga.operate(), sam.review()):
            self._spawn(work)
        if faults.interventions:
            self._spawn(self.operator.intervene(faults.interventions))
        if self.roadmap_owner is not None:
            self._spawn(self.roadmap_owner.manage(active_s))
        if self.has_budget:
            self._spawn(self.budget_operator.manage_budget(active_s))
        if self.mode_rng is not None:
            mode_operator = FleetOperator(ann, self.machines, self.mode_rng)
            self._spawn(mode_operator.change_dispatch_modes(active_s))
        fault_loops: tuple[tuple[float, Callable[[], Awaitable[None]]], ...] = (
            (faults.coordinator_crashes, self._crash_a_coordinator),
            (faults.machine_crashes, self._crash_a_machine),
            (faults.stalls, self._stall_a_coordinator),
            (faults.pauses, self._pause_a_machine),
            (faults.outages, self._outage),
            (faults.clock_jumps, self._clock_jump),
        )
        for per_minute, inject in fault_loops:
            if per_minute:
                self._spawn(self._repeat(per_minute, inject))
        await asyncio.sleep(faults.fault_phase_s / 3)
        if self.followers and self.store._jobs:  # noqa: SLF001 - the checker reads internal state
            self._follow(next(iter(self.store._jobs)))  # noqa: SLF001 - the checker reads internal state
        await asyncio.sleep(faults.fault_phase_s * 2 / 3)

    async def _repeat(self, per_minute: float, inject: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self.rng.expovariate(per_minute / 60.0))
            await inject()

    async def _crash_a_coordinator(self) -> None:
        node = self.rng.choice(self.nodes)
        graceful = self.rng.random() < 0.25
        self.note(f"{node.name} {'stops' if graceful else 'crashes'}")
        await (node.stop() if graceful else node.crash())
        await asyncio.sleep(self.rng.choice((0.1, 2.0, 25.0)) * self.rng.random())
        node.start()

    async def _stall_a_coordinator(self) -> None:
        node = self.rng.choice(self.nodes)
        duration = self.rng.uniform(1.0, 9.0)
        self.note(f"{node.name} stalls for {duration:.1f} s")
        node.stall(asyncio.get_running_loop().time() + duration)
        await asyncio.sleep(duration)

    async def _crash_a_machine(self) -> None:
        machine = self.rng.choice(self.machines)
        self.note(f"{machine.instance_id} crashes")
        machine.crash()
        await asyncio.sleep(self.rng.choice((0.1, 5.0, 40.0)) * self.rng.random())
        machine.boot()

    async def _pause_a_machine(self) -> None:
        machine = self.rng.choice(self.machines)
        self.note(f"{machine.instance_id} sleeps")
        any_duration = self.rng.uniform(1.0, 2.2 * LEASE_TTL_S)
        near_expiry = self.rng.uniform(0.7, 1.15) * LEASE_TTL_S
        await machine.pause(self.rng.choice((any_duration, near_expiry)))

    async def _outage(self) -> None:
        nodes = self.nodes if self.rng.random() < 0.5 else [self.rng.choice(self.nodes)]
        duration = self.rng.choice((0.5, 5.0, 45.0)) * self.rng.uniform(0.4, 1.0)
        self.note(f"the store is down for {', '.join(n.name for n in nodes)} for {duration:.1f} s")
        moment, start = self.history.moment(), self._now()
        for node in nodes:
            node.disconnect_store(asyncio.get_running_loop().time() + duration)
        await asyncio.sleep(duration)
        if len(nodes) == len(self.nodes):
            self.history.gaps.append((moment, start, self._now()))

    async def _clock_jump(self) -> None:
        by = self.rng.choice((0.5, 8.0, 60.0)) * self.rng.uniform(-1.0, 1.0)
        self.note(f"the wall clocks are set by {by:.1f} s")
        self.clock_offset.seconds += by
        await asyncio.sleep(0)

    def _now(self) -> datetime:
        return self.time_of(asyncio.get_running_loop().time())

    def time_of(self, at: float) -> datetime:
        """Return the server's time at a simulated second; steps of wall clocks do not change it."""
        return NOON + timedelta(seconds=at + self.clock_offset.initial_seconds)

    async def _settle(self) -> None:
        """Disable all faults, restart everything and wait until no work is left."""
        self.note("faults end")
        background, self._background = self._background, []
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        self.network.faults = CALM
        for node in self.nodes:
            node.set_fault_rates(CALM)
            node.start()
        for node in self.nodes:
            await node.up.wait()
        for machine in self.machines:
            await self._restore(machine)
        await self._stop_schedules()
        await self._until_settled()
        if self.roadmap_owner is not None:
            dags = [
                await self.roadmap_owner.fetch_dag(job)
                for job in await self.roadmap_owner.composites()
            ]
            self.dags = [dag for dag in dags if dag is not None]

    async def _restore(self, machine: Machine) -> None:
        machine.calm = True
        # Makes engines that were unavailable usable again.
        machine.versions += 1
        if machine.label:
            # Two processes under one id end each other's leases for as long as both run.
            machine.crash()
        elif not machine.running:
            machine.boot()
        await machine.pause(0.0)

    async def _undo_operator_actions(self) -> None:
        """Undo operator actions; delayed requests may repeat them."""
        records = list(self.store._records.values())  # noqa: SLF001 - the checker reads internal state
        for record in records:
            if isinstance(record, HaltSwitch) and record.halted:
                await self.operator.set_halted(record.product_id, halted=False)
            if isinstance(record, Factory) and record.draining:
                await self.operator.drain(record.id, draining=False)
        if self.roadmap_owner is not None:
            for job in await self.roadmap_owner.composites():
                await self.roadmap_owner.approve_phase(job)
        for budget in open_budgets(self.store):
            await self.budget_operator.set_budget(budget.product_id, BudgetTerms())
            await self.budget_operator.resume_budget(budget.product_id)
        enrolled = {record.id for record in records if isinstance(record, Factory)}
        for machine in self.machines:
            if machine.running and (machine.lost_token or machine.id not in enrolled):
                await self.operator.reenroll(machine)

    async def _stop_schedules(self) -> None:
        for job in list(self.store._jobs.values()):  # noqa: SLF001 - the checker reads internal state
            if job.terms.schedule is not None and not job.finished:
                await self.people["ann"].act(job.id, "cancel", ActionRequest(reason="enough"))

    async def _until_settled(self) -> None:
        loop = asyncio.get_running_loop()
        if self.roadmap_owner is not None:
            for _ in range(ROADMAP_ROUNDS):
                await self._undo_operator_actions()
                await self.roadmap_owner.finish()
                await asyncio.sleep(CHECK_INTERVAL_S)
        end = loop.time() + SETTLE_MAX_S
        while loop.time() < end:
            await self._undo_operator_actions()
            await asyncio.sleep(CHECK_INTERVAL_S)
            if not unsettled(self.store, self.machines):
                # Late duplicates and stale reports may still arrive.
                await asyncio.sleep(CHECK_INTERVAL_S * 2)
                if not unsettled(self.store, self.machines):
                    return
        self.unsettled = unsettled(self.store, self.machines)
