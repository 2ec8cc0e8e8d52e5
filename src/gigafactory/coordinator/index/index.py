"""The index: the ready queue, the fleet and the budgets in memory, kept current by the change feed.

The store is authoritative; the index is a cache that decisions are made from. Every decision is
committed with compare-and-set, so a stale index costs a lost commit and never a wrong one.
docs/architecture.md, section "The index", describes the protocol.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import date, datetime

from msgspec.structs import replace

from gigafactory.coordinator.core.ports import PAGE_MAX, Clock, JobQuery, Store, all_records
from gigafactory.coordinator.index.assignments import Assignments
from gigafactory.coordinator.index.composite_gate import CompositeGate
from gigafactory.coordinator.index.dispatch_modes import DispatchModes
from gigafactory.coordinator.index.factory_faults import FactoryFaultRates
from gigafactory.coordinator.index.past_capabilities import restore_past_capabilities
from gigafactory.coordinator.index.seat_reservation import SeatReservation
from gigafactory.domain.fleet.factory import Factory, Vitals
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.insights.routing_rollout import RoutingRollout
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FLEET, FeedEntry, JobChange, Record, RevisionGuard
from gigafactory.domain.job.job import Event, Job, Stage
from gigafactory.domain.queue.ready_queue import ReadyQueue
from gigafactory.domain.scheduler.decision import Pick
from gigafactory.domain.tenancy.budget import Budget
from gigafactory.domain.tenancy.dispatch_mode import DispatchMode
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.domain.tenancy.product import Product

CANDIDATE_STAGES = (Stage.QUEUED, Stage.TESTING)
"""The stages in which a job can wait for a factory."""

RECHECKED: dict[str, type[Record]] = {of.kind: of for of in (Budget, Factory, HaltSwitch)}
"""Records that are read again when a commit was refused because they had changed."""

Listener = Callable[[FeedEntry], None]


class Index:
    """A cache of the store that follows the change feed; every coordinator has its own.

    A job is in one of four states here:

    - current: the version that the feed, or a read of the store, brought last;
    - reserved: picked for an offer or a grant, and hidden from all other decisions until the commit
      is decided (`reserve`, `committing`);
    - ahead: written by this coordinator, and not yet seen in the feed (`apply_own_commit`);
    - stale: the outcome of a commit is unknown, or a read contradicted the index; `catch_up` reads
      the job again (`mark_stale`).
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        fleet_seats: dict[str, int],
        default_mode: DispatchMode = DispatchMode.PUSH,
    ) -> None:
        """Start empty; `load` fills the index.

        `default_mode` is the dispatch mode of products that have not set one.
        """
        self._store = store
        self._clock = clock
        self._fleet_seats = fleet_seats
        self._default_mode = default_mode
        self.rollbacks = store.rollbacks
        """The losses of history in the store that the index knows of."""
        self.vitals: dict[str, Vitals] = {}
        self._listeners: list[Listener] = []
        self._update_hooks: list[Callable[[], None]] = []
        self._reload_hooks: list[Callable[[], Awaitable[None]]] = []
        self._next_update = asyncio.Event()
        self._catching_up = asyncio.Lock()
        self._clear()

    def _clear(self) -> None:
        self.queue = ReadyQueue()
        self.fleet = FleetState(fleet_seats=self._fleet_seats)
        self.dispatch_modes = DispatchModes(self._default_mode)
        self.assignments = Assignments()
        self.fault_rates = FactoryFaultRates()
        self.factories: dict[str, Factory] = {}
        self.streaming_factories: set[str] = set()
        """Factories with an open offer stream, at any coordinator."""
        self.switches: dict[str, HaltSwitch] = {}
        self.budgets: dict[str, Budget] = {}
        self.position = 0
        """The feed position up to which events are applied."""
        self.queue_versions: dict[str, int] = defaultdict(int)
        """By product, the position of its newest event; polling factories compare it."""
        self._gate = CompositeGate(self.queue)
        self._stale: set[str] = set()
        """Jobs to read again at the next `catch_up`."""
        self._in_flight: set[str] = set()
        """Reserved jobs whose commit is not decided yet."""
        self._own_commits: dict[str, Job] = {}
        """Versions written by this coordinator that the feed has not delivered yet."""
        self._today: date | None = None

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with every feed entry, in order, after the index has applied it."""
        self._listeners.append(listener)

    def on_update(self, hook: Callable[[], None]) -> None:
        """Call `hook` after each applied batch of entries, before any waiter wakes."""
        self._update_hooks.append(hook)

    def on_reload(self, hook: Callable[[], Awaitable[None]]) -> None:
        """Call `hook` after everything was read again, because the store had lost history."""
        self._reload_hooks.append(hook)

    async def _reload(self) -> None:
        async with self._catching_up:
            if (rollbacks := self._store.rollbacks) == self.rollbacks:
                return
            self._clear()
            await self.load()
            self.rollbacks = rollbacks
        for hook in self._reload_hooks:
            await hook()
        self._announce_update()

    async def load(self) -> None:
        """Read the fleet and all unfinished jobs from the store."""
        # The position is read first: events that arrive during the load are applied twice, which
        # is harmless, and none is missed.
        self.position = await self._store.position()
        for product in await all_records(self._store, Product):
            self._apply_product(product)
            if product.uses_learned_routing:
                await self.refresh(RoutingRollout, product.id)
        for switch in await all_records(self._store, HaltSwitch):
            self._apply_switch(switch)
        for budget in await all_records(self._store, Budget):
            self.apply_budget(budget)
        for factory in await all_records(self._store, Factory):
            self._apply_factory(factory)
        seen = await self._store.last_seen()
        for factory_id, at in seen.items():
            self.record_sign_of_life(factory_id, at)
        await restore_past_capabilities(self._store, self.fleet, seen)
        for stage in CANDIDATE_STAGES:
            async for job in self._jobs_in(stage):
                self.apply_job(job)
                self.queue_versions[job.product_id] = self.position
        await self._reread(set((await self._store.keys_with_prefix("slot/")).values()))

    async def _jobs_in(self, stage: Stage) -> AsyncIterator[Job]:
        query = JobQuery(stages=(stage,), oldest_first=True, limit=PAGE_MAX)
        while page := await self._store.find_jobs(query):
            for job in page:
                yield job
            query = replace(query, after=page[-1].id)

    async def catch_up(self) -> None:
        """Apply all feed entries above `position`, then read stale jobs again."""
        if self._store.rollbacks != self.rollbacks:
            await self._reload()
        async with self._catching_up:
            self._start_day()
            while entries := await self._store.feed(after=self.position):
                for job in {entry.job.id: entry.job for entry in entries if entry.job}.values():
                    if self._own_commits.pop(job.id, None) != job:
                        self.apply_job(job)
                    self._in_flight.discard(job.id)
                    self._stale.discard(job.id)
                for entry in entries:
                    if entry.job is None:
                        await self._refresh_subject(entry.event)
                    self._advance(entry)
                # Any event of a job may have reserved or spent part of its product's budget.
                products = {entry.event.product_id for entry in entries if entry.job}
                for product in products & self.budgets.keys():
                    await self.refresh(Budget, product)
                self._announce_update()
            if stale := set(self._stale):
                await self._reread(stale)
                self._stale -= stale
                self._announce_update()

    async def wait_for_feed(self) -> None:
        """Wait until the feed is past `position`, or for a while."""
        await self._store.wait_for_change(self.position)

    async def wait_for_update(self) -> None:
        """Wait until the index has applied something new."""
        await self._next_update.wait()

    @property
    def next_update(self) -> asyncio.Event:
        """The event that is set when the index has applied something new."""
        return self._next_update

    def _announce_update(self) -> None:
        for hook in self._update_hooks:
            hook()
        update, self._next_update = self._next_update, asyncio.Event()
        update.set()

    async def _refresh_subject(self, event: Event) -> None:
        """Read the record again that an event without a job is about."""
        if "factoryId" in event.data:
            factory_id = event.data["factoryId"]
            await self.refresh(Factory, factory_id)
            # An event of the factory itself proves that it was alive, wherever it was connected.
            if factory_id in self.factories and event.actor == f"factory:{factory_id}":
                self.record_sign_of_life(factory_id, event.at)
        elif event.type in {event_types.HALTED, event_types.RESUMED}:
            await self.refresh(HaltSwitch, event.product_id)
        elif event.type.startswith("budget_"):
            await self.refresh(Budget, event.product_id)
        elif event.type.startswith("routing_"):
            await self.refresh(RoutingRollout, event.product_id)
        elif event.type in {event_types.PRODUCT_CHANGED, event_types.DISPATCH_CHANGED}:
            await self.refresh(Product, event.product_id)

    def _advance(self, entry: FeedEntry) -> None:
        event = entry.event
        if entry.job is not None:
            self.fault_rates.observe(event)
        if "factoryId" not in event.data or entry.job is not None:
            self.queue_versions[event.product_id] = event.position
        self.position = event.position
        for listener in self._listeners:
            listener(entry)

    def apply_job(self, job: Job) -> None:
        """Replace what is known of a job by this version."""
        self._gate.put(job)
        self.fleet.put_job(job)
        self.assignments.put(job)

    def apply_own_commit(self, position: int, *changes: JobChange) -> None:
        """Apply changes that this coordinator has just stored, the last one's event at `position`.

        The feed delivers them again later; a version that it delivered already is left alone.
        """
        position -= sum(len(change.events) for change in changes)
        for change in changes:
            position += len(change.events)
            if position > self.position:
                job = change.after
                self._in_flight.discard(job.id)
                self._own_commits[job.id] = job
                self.apply_job(job)

    def remove_job(self, job_id: str) -> None:
        """Forget a job that does not exist in the store."""
        self._gate.remove(job_id)
        self.fleet.forget_job(job_id)

    def may_assign(self, factory_id: str, product_id: str) -> bool:
        """Return whether a factory may get jobs of a product: neither draining nor halted.

        Check it again right before `guards`: they pin the present state, so that a decision made
        under an earlier one would otherwise be stored.
        """
        factory = self.factories.get(factory_id)
        stopped = self.fleet.stop_reason(product_id) is not None
        return factory is not None and not factory.draining and not stopped

    def guards(self, factory_id: str, product_id: str) -> tuple[RevisionGuard, ...]:
        """Return the guards of an offer or grant: halt switches and factory are unchanged."""
        return (
            RevisionGuard("switch", FLEET, self._switch_rev(FLEET)),
            RevisionGuard("switch", product_id, self._switch_rev(product_id)),
            RevisionGuard("factory", factory_id, self.factories[factory_id].rev),
        )

    def reserve(self, seat: SeatReservation | Pick) -> None:
        """Hide a job and its seats from other decisions until `committing` ends."""
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
        """Commit reserved jobs inside this block, which ends their reservations.

        A job whose new version neither the block nor the feed has applied by then becomes stale.
        """
        self._in_flight.update(job_ids)
        try:
            yield
        finally:
            for job_id in job_ids:
                if job_id in self._in_flight:
                    self._in_flight.discard(job_id)
                    self.mark_stale(job_id)

    def mark_stale(self, job_id: str) -> None:
        """Have the next `catch_up` read this job from the store."""
        self._stale.add(job_id)

    async def _reread(self, job_ids: Collection[str]) -> None:
        jobs = await self._store.jobs(job_ids)
        for job_id in job_ids:
            if job_id in jobs:
                self.apply_job(jobs[job_id])
            else:
                self.remove_job(job_id)

    async def on_conflict(self, key: str) -> None:
        """Read the record again that a refused commit found changed; `key` is `kind/key`."""
        kind, _, name = key.partition("/")
        if kind in RECHECKED:
            await self.refresh(RECHECKED[kind], name)

    async def refresh(self, of: type[Record], key: str) -> None:
        """Read one record from the store and apply it."""
        match await self._store.record(of, key):
            case Factory() as factory:
                self._apply_factory(factory)
            case HaltSwitch() as switch:
                self._apply_switch(switch)
            case Budget() as budget:
                self.apply_budget(budget)
            case RoutingRollout() as routing:
                self.fleet.predictor.put(routing)
            case Product() as product:
                self._apply_product(product)
            case _ if of is Factory:
                self._remove_factory(key)
            case _ if of is Product:
                self._apply_product(Product(id=key))
            case _:
                return

    def _apply_product(self, product: Product) -> None:
        self.fleet.put_product(product)
        self.dispatch_modes.put(product)

    def _apply_factory(self, factory: Factory) -> None:
        current = self.factories.get(factory.id, factory)
        # Two reads can overtake each other: the older version may arrive last.
        if (factory.enrolled_at, factory.rev) < (current.enrolled_at, current.rev):
            return
        self.factories[factory.id] = factory
        self.fleet.put(factory)
        streams = self.streaming_factories
        (streams.add if factory.streaming else streams.discard)(factory.id)
        if factory.id in self.vitals:
            self.fleet.record_vitals(factory.id, self.vitals[factory.id])

    def _remove_factory(self, factory_id: str) -> None:
        if self.factories.pop(factory_id, None) is not None:
            self.fleet.remove(factory_id)
            self.streaming_factories.discard(factory_id)
            self.vitals.pop(factory_id, None)

    def _apply_switch(self, switch: HaltSwitch) -> None:
        # Two reads can overtake each other: the older version may arrive last.
        if switch.rev >= self._switch_rev(switch.product_id):
            self.switches[switch.product_id] = switch
            self.fleet.put_switch(switch)

    def _switch_rev(self, product_id: str) -> int:
        switch = self.switches.get(product_id)
        return switch.rev if switch else 0

    def apply_budget(self, budget: Budget) -> None:
        """Replace what is known of a budget by this version, unless a newer one is known."""
        current = self.budgets.get(budget.product_id)
        if current is None or current.rev <= budget.rev:
            self.budgets[budget.product_id] = budget
            self.fleet.put_budget(budget, now=self._clock.now())

    def _start_day(self) -> None:
        """Apply all budgets again on a new day, which may start a new budget period."""
        now = self._clock.now()
        if self.budgets and now.date() != self._today:
            self._today = now.date()
            for budget in self.budgets.values():
                self.fleet.put_budget(budget, now=now)

    def record_heartbeat(self, factory_id: str, vitals: Vitals) -> None:
        """Record a heartbeat that this coordinator received."""
        self.vitals[factory_id] = vitals
        self.fleet.record_vitals(factory_id, vitals)

    def record_sign_of_life(self, factory_id: str, at: datetime) -> None:
        """Record that a factory was alive at `at`, as shown by anything but a heartbeat here."""
        vitals = self.vitals.get(factory_id)
        if vitals is None:
            self.record_heartbeat(factory_id, Vitals(last_seen=at))
        elif at > vitals.last_seen:
            self.record_heartbeat(factory_id, replace(vitals, last_seen=at))
