"""What a coordinator keeps in memory, from the feed: ready queue, fleet, queue versions."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.core.ports import PAGE_MAX, Clock, JobQuery, Store, all_records
from gigafactory.coordinator.index import past_capabilities as former
from gigafactory.coordinator.index.assignments import Assignments
from gigafactory.coordinator.index.dispatch_modes import DispatchModes
from gigafactory.coordinator.index.factory_faults import FactoryFaultRates
from gigafactory.domain.fleet.factory import Factory, Vitals
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.insights.routing_rollout import RoutingRollout
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FeedEntry
from gigafactory.domain.job.job import Event, Job, Stage, Step
from gigafactory.domain.queue.ready_queue import ReadyQueue
from gigafactory.domain.scheduler.decision import Pick
from gigafactory.domain.tenancy.budget import Budget
from gigafactory.domain.tenancy.dispatch_mode import DispatchMode
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.domain.tenancy.product import Product

CANDIDATES = (Stage.QUEUED, Stage.TESTING)
"""The stages in which a job can wait for a factory."""


class SeatReservation(msgspec.Struct, frozen=True, kw_only=True):
    """Room for one job on one factory: the unique keys that its lease will hold."""

    job_id: str
    factory_id: str
    engine: str | None
    seats: tuple[str, ...]
    decision: dict[str, Any]
    """Why this one, as it was offered."""


Listener = Callable[[FeedEntry], None]


class Index:
    """Follows the change feed; every coordinator has one, and none of them is the truth."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        fleet_seats: dict[str, int],
        way: DispatchMode = DispatchMode.PUSH,
    ) -> None:
        """Begin empty; `load` fills it. `way` is that of products for which nobody has set one."""
        self._store = store
        self._clock = clock
        self.queue = ReadyQueue()
        self.fleet = FleetState(fleet_seats=fleet_seats)
        self.dispatch_modes = DispatchModes(way)
        self.assignments = Assignments()
        self.factories: dict[str, Factory] = {}
        self.streaming_factories: set[str] = set()
        """The factories that an offer can reach."""
        self.vitals: dict[str, Vitals] = {}
        self.switches: dict[str, HaltSwitch] = {}
        self.budgets: dict[str, Budget] = {}
        """Of the products that have one."""
        self.position = 0
        self.queue_versions: dict[str, int] = defaultdict(int)
        """Per product, the position of its newest event: what a polling factory compares."""
        self.fault_rates = FactoryFaultRates()
        self._ended_composites: set[str] = set()
        """Composites that ended without being shipped: none of their children is a candidate."""
        self._exhausted_composites: set[str] = set()
        """Composites, all of whose budget is spent: none of their children begins a run."""
        self._held_back: dict[str, dict[str, Job]] = {}
        """Jobs that would wait for a factory, were it not for their composite; by that one."""
        self._stale: set[str] = set()
        self._in_flight: set[str] = set()
        self._own_commits: dict[str, Job] = {}
        self._today: date | None = None
        self._listeners: list[Listener] = []
        self._update_hooks: list[Callable[[], None]] = []
        self._next_update = asyncio.Event()
        self._catching_up = asyncio.Lock()

    def subscribe(self, listener: Listener) -> None:
        """Have every feed entry told, in order, after the index has taken it in."""
        self._listeners.append(listener)

    def on_update(self, then: Callable[[], None]) -> None:
        """Have this done whenever the index has taken in something, before anybody acts on it."""
        self._update_hooks.append(then)

    async def load(self) -> None:
        """Read what is unfinished, and the fleet; the feed goes on from before the reading."""
        self.position = await self._store.position()
        for product in await all_records(self._store, Product):
            self._put_product(product)
            if product.uses_learned_routing:
                await self.refresh_routing(product.id)
        await self.refresh_switches()
        for budget in await all_records(self._store, Budget):
            self.apply_budget(budget)
        for factory in await all_records(self._store, Factory):
            self._put_factory(factory)
        seen = await self._store.last_seen()
        for factory_id, at in seen.items():
            self.record_sign_of_life(factory_id, at)
        await former.restore_past_capabilities(self._store, self.fleet, seen)
        for stage in CANDIDATES:
            async for job in self._jobs_in(stage):
                self.apply_job(job)
                self.queue_versions[job.product_id] = self.position
        await self._refresh(set((await self._store.keys_with_prefix("slot/")).values()))

    async def _jobs_in(self, stage: Stage) -> AsyncIterator[Job]:
        query = JobQuery(stages=(stage,), oldest_first=True, limit=PAGE_MAX)
        while page := await self._store.find_jobs(query):
            for job in page:
                yield job
            query = replace(query, after=page[-1].id)

    async def catch_up(self) -> None:
        """Take in what the feed has that this index has not, and look again at what is in doubt."""
        async with self._catching_up:
            self._new_day()
            while entries := await self._store.feed(after=self.position):
                for job in {entry.job.id: entry.job for entry in entries if entry.job}.values():
                    if self._own_commits.pop(job.id, None) != job:
                        self.apply_job(job)
                    self._in_flight.discard(job.id)
                    self._stale.discard(job.id)
                for entry in entries:
                    if entry.job is None:
                        await self._look_up(entry.event)
                    self._take_in(entry)
                # Whatever concerns a job may have spent or set aside something, anywhere.
                products = {entry.event.product_id for entry in entries if entry.job}
                for product in products & self.budgets.keys():
                    await self.refresh_budget(product)
                self._announce_update()
            if doubtful := set(self._stale):
                await self._refresh(doubtful)
                self._stale -= doubtful
                self._announce_update()

    async def wait_for_feed(self) -> None:
        """Wait until the feed has gone on; for the loop that follows it."""
        await self._store.wait_for_change(self.position)

    async def wait_for_update(self) -> None:
        """Wait until the index has taken in something new."""
        await self._next_update.wait()

    @property
    def next_update(self) -> asyncio.Event:
        """Rings, once, when the index has taken in something that is new by now."""
        return self._next_update

    def _announce_update(self) -> None:
        for then in self._update_hooks:
            then()
        bell, self._next_update = self._next_update, asyncio.Event()
        bell.set()

    async def _look_up(self, event: Event) -> None:
        """Know what an event that concerns no job is about, as it is stored now."""
        if "factoryId" in event.data:
            await self._hear_of(event.data["factoryId"], event)
        elif event.type in {event_types.HALTED, event_types.RESUMED}:
            await self.refresh_switches()
        elif event.type.startswith("budget_"):
            await self.refresh_budget(event.product_id)
        elif event.type.startswith("routing_"):
            await self.refresh_routing(event.product_id)
        elif event.type in {event_types.PRODUCT_CHANGED, event_types.DISPATCH_CHANGED}:
            product = await self._store.record(Product, event.product_id)
            self._put_product(product or Product(id=event.product_id))

    def _put_product(self, product: Product) -> None:
        self.fleet.put_product(product)
        self.dispatch_modes.put(product)

    def _take_in(self, entry: FeedEntry) -> None:
        event = entry.event
        if entry.job is not None:
            self.fault_rates.observe(event)
        self.queue_versions[event.product_id] = event.position
        self.position = event.position
        for listener in self._listeners:
            listener(entry)

    async def _hear_of(self, factory_id: str, event: Event) -> None:
        """Know a factory anew; what it has done itself shows that it lives, wherever it did it."""
        await self.refresh_factory(factory_id)
        if factory_id in self.factories and event.actor == f"factory:{factory_id}":
            self.record_sign_of_life(factory_id, event.at)

    def apply_job(self, job: Job) -> None:
        """Know this version of a job."""
        if job.composite:
            ended = job.finished and job.stage is not Stage.SHIPPED
            (self._ended_composites.add if ended else self._ended_composites.discard)(job.id)
            (
                self._exhausted_composites.add
                if job.over_budget
                else self._exhausted_composites.discard
            )(job.id)
            for child in self._held_back.pop(job.id, {}).values():
                self._queue(child)
        self._queue(job)
        self.fleet.put_job(job)
        self.assignments.put(job)

    def _queue(self, job: Job) -> None:
        """Let a job wait for a factory, unless its composite holds it back: then for that."""
        held = job.parent_id in self._ended_composites and job.step is not None
        held = held or (job.parent_id in self._exhausted_composites and job.step is Step.RUN)
        if job.parent_id is not None:
            siblings = self._held_back.setdefault(job.parent_id, {})
            siblings.pop(job.id, None)
            if held:
                siblings[job.id] = job
            if not siblings:
                del self._held_back[job.parent_id]
        self.queue.put(replace(job, stage=Stage.BLOCKED) if held else job)

    def apply_own_commit(self, job: Job, position: int) -> None:
        """Know a version that was just stored, unless the feed has told of it already."""
        if position > self.position:
            self._in_flight.discard(job.id)
            self._own_commits[job.id] = job
            self.apply_job(job)

    def remove_job(self, job_id: str) -> None:
        """Know nothing of a job that is not stored."""
        self.queue.remove(job_id)
        self.fleet.forget_job(job_id)
        for siblings in self._held_back.values():
            siblings.pop(job_id, None)

    def may_assign(self, factory_id: str, product_id: str) -> bool:
        """Whether a factory may still be given jobs of a product.

        Guards hold what is known now: whoever chose a moment ago must look again with them.
        """
        factory = self.factories.get(factory_id)
        stopped = self.fleet.stop_reason(product_id) is not None
        return factory is not None and not factory.draining and not stopped

    def reserve(self, seat: SeatReservation | Pick) -> None:
        """Let nobody else choose this job or these keys while a commit decides."""
        waiting = self.queue.find(seat.job_id)
        if waiting is not None:
            self.queue.remove(seat.job_id)
            if waiting.lock is not None:
                self.queue.take_lock(waiting.lock, seat.job_id)
        self.fleet.reserve(
            seat.job_id, seat.factory_id, seat.engine, seat.seats, now=self._clock.now()
        )

    @contextmanager
    def committing(self, *job_ids: str) -> Iterator[None]:
        """End reservations with the block; what came of each is then known, or read."""
        self._in_flight.update(job_ids)
        try:
            yield
        finally:
            # Unless the block has put a job's new version, nobody knows how the job stands now.
            for job_id in job_ids:
                if job_id in self._in_flight:
                    self._in_flight.discard(job_id)
                    self.mark_stale(job_id)

    def mark_stale(self, job_id: str) -> None:
        """Look at this job again in the store, as soon as that can be done."""
        self._stale.add(job_id)

    async def _refresh(self, job_ids: Collection[str]) -> None:
        found = await self._store.jobs(job_ids)
        for job_id in job_ids:
            if job_id in found:
                self.apply_job(found[job_id])
            else:
                self.remove_job(job_id)

    def _put_factory(self, factory: Factory) -> None:
        known = self.factories.get(factory.id, factory)
        # Of two looks at once, the older one may come in last.
        if (factory.enrolled_at, factory.rev) < (known.enrolled_at, known.rev):
            return
        self.factories[factory.id] = factory
        self.fleet.put(factory)
        (self.streaming_factories.add if factory.streaming else self.streaming_factories.discard)(
            factory.id
        )
        if factory.id in self.vitals:
            self.fleet.record_vitals(factory.id, self.vitals[factory.id])

    async def refresh_factory(self, factory_id: str) -> None:
        """Know a factory as it is stored now."""
        factory = await self._store.record(Factory, factory_id)
        if factory is not None:
            self._put_factory(factory)
        elif self.factories.pop(factory_id, None) is not None:
            self.fleet.remove(factory_id)
            self.streaming_factories.discard(factory_id)
            self.vitals.pop(factory_id, None)

    async def refresh_switches(self) -> None:
        """Know the switches as they are stored now."""
        for switch in await all_records(self._store, HaltSwitch):
            # Of two looks at once, the older one may come in last.
            if switch.rev >= self.switch_rev(switch.product_id):
                self.switches[switch.product_id] = switch
                self.fleet.put_switch(switch)

    def switch_rev(self, product_id: str) -> int:
        """The revision of a switch that decisions were made under; 0 while there is none."""
        switch = self.switches.get(product_id)
        return switch.rev if switch else 0

    async def refresh_budget(self, product_id: str) -> None:
        """Know a product's budget as it is stored now."""
        budget = await self._store.record(Budget, product_id)
        if budget is not None:
            self.apply_budget(budget)

    async def refresh_routing(self, product_id: str) -> None:
        """Know a product's rollout as it is stored now."""
        routing = await self._store.record(RoutingRollout, product_id)
        if routing is not None:
            self.fleet.predictor.put(routing)

    def apply_budget(self, budget: Budget) -> None:
        """Know this version of a budget, unless a newer one is known."""
        known = self.budgets.get(budget.product_id)
        if known is None or known.rev <= budget.rev:
            self.budgets[budget.product_id] = budget
            self.fleet.put_budget(budget, now=self._clock.now())

    def _new_day(self) -> None:
        """A new day may be a new period, in which there is something to spend again."""
        now = self._clock.now()
        if self.budgets and now.date() != self._today:
            self._today = now.date()
            for budget in self.budgets.values():
                self.fleet.put_budget(budget, now=now)

    async def on_conflict(self, key: str) -> None:
        """Look again at what a lost commit was wrong about, where nothing else would."""
        kind, _, product_id = key.partition("/")
        if kind == Budget.kind:
            await self.refresh_budget(product_id)

    def record_heartbeat(self, factory_id: str, vitals: Vitals) -> None:
        """Note a heartbeat that came here."""
        self.vitals[factory_id] = vitals
        self.fleet.record_vitals(factory_id, vitals)

    def record_sign_of_life(self, factory_id: str, at: datetime) -> None:
        """Note that a factory lived then, by another sign than a heartbeat that came here."""
        known = self.vitals.get(factory_id)
        if known is None:
            self.record_heartbeat(factory_id, Vitals(last_seen=at))
        elif at > known.last_seen:
            self.record_heartbeat(factory_id, replace(known, last_seen=at))
