"""The fleet in memory: factories by shape, their seats, products, halt switches and budgets."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from heapq import heappop, heappush

from gigafactory.domain.fleet.factory import Factory, Vitals
from gigafactory.domain.fleet.matching import FactoryTraits, Fit, PastCapabilities, Rejection, match
from gigafactory.domain.fleet.pool import FULL, Member, Occupancy, Pool
from gigafactory.domain.fleet.running_jobs import RunningJobs
from gigafactory.domain.fleet.scarcity import Scarcity
from gigafactory.domain.fleet.seat_usage import SeatUsage
from gigafactory.domain.fleet.seats import JobSeats, SeatMap
from gigafactory.domain.insights.routing_predictor import RoutingPredictor
from gigafactory.domain.job.change import FLEET
from gigafactory.domain.job.job import Job, Step
from gigafactory.domain.manifest.capability import meets
from gigafactory.domain.manifest.engine_ref import ENGINE_CLASSES, base_engine
from gigafactory.domain.manifest.manifest import EngineClass
from gigafactory.domain.queue.queued_job import JobClass
from gigafactory.domain.tenancy.budget import Budget
from gigafactory.domain.tenancy.budget_reservation import reservation_refusal
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.domain.tenancy.product import Product

PAST_CAPABILITIES_MAX = 1000
SHARE_MIN = 1e-6
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

Rarities = tuple[tuple[str, float], ...]
SupposeSeats = Callable[[str, str, str | None, tuple[str, ...]], None]
"""Takes a job id, a factory id, an engine and the keys that the run would hold."""


class FleetState:
    """The scheduler's view of the fleet, updated with every version of every record."""

    def __init__(
        self,
        *,
        fleet_seats: Mapping[str, int] | None = None,
        classes: Mapping[str, EngineClass] = ENGINE_CLASSES,
    ) -> None:
        self.seat_map = SeatMap(fleet_seats or {})
        self.running_jobs = RunningJobs()
        self.predictor = RoutingPredictor()
        self.budget_stops: dict[str, str] = {}
        """Products stopped by their budget, with the reason."""
        self.budget_left: dict[str, float] = {}
        """The fraction of its budget that a product has left, 0 to 1; only with a ceiling."""
        self.past_capabilities: dict[PastCapabilities, tuple[str, datetime]] = {}
        """Capability sets of the past: the last factory that had each, and until when."""
        self.classes = classes
        self._members: dict[str, Member] = {}
        self._pools: dict[FactoryTraits, Pool] = {}
        self._products: dict[str, Product] = {}
        self._switches: dict[str, HaltSwitch] = {}
        self._budgets: dict[str, Budget] = {}
        self._refusals: dict[JobClass, str | None] = {}
        self._seat_time = SeatUsage()
        self._timers: list[tuple[datetime, str]] = []
        self._now = _LONG_AGO
        self._common: frozenset[str] = frozenset()
        """The tokens that every factory advertises."""
        self._rarities: tuple[frozenset[str], dict[Pool, Rarities]] | None = None
        self._scarcity: tuple[frozenset[JobClass], Scarcity] | None = None

    def put(self, factory: Factory) -> None:
        """Update the fleet with this version of a factory."""
        member = self._members.get(factory.id)
        traits = FactoryTraits.of(factory)
        if member is None:
            member = Member(factory, self._pool(traits))
            self._members[factory.id] = member
            member.pool.add(member)
            self._rarities = None
        elif member.pool.traits == traits:
            member.pool.discard(member)
            member.factory = factory
            member.pool.add(member)
        else:
            self._leave(member)
            member.factory, member.pool = factory, self._pool(traits)
            member.pool.add(member)
        self._scarcity = None
        self._refresh(member)

    def remove(self, factory_id: str) -> None:
        """Remove a factory; its capabilities move to `past_capabilities`."""
        member = self._members.pop(factory_id, None)
        if member is not None:
            self._leave(member)

    def record_vitals(self, factory_id: str, vitals: Vitals) -> None:
        """Record the vitals of a factory; ignored when it is not enrolled."""
        member = self._members.get(factory_id)
        if member is not None:
            member.vitals = vitals
            self._refresh(member)

    def remember_capabilities(
        self, factory_id: str, capabilities: PastCapabilities, until: datetime
    ) -> None:
        """Record capabilities a factory had in the past; beyond a limit the oldest are dropped."""
        self.past_capabilities.pop(capabilities, None)
        self.past_capabilities[capabilities] = (factory_id, until)
        if len(self.past_capabilities) > PAST_CAPABILITIES_MAX:
            del self.past_capabilities[next(iter(self.past_capabilities))]

    def put_job(self, job: Job) -> None:
        """Update the seats taken by the leases and the offer of this version of a job."""
        self.running_jobs.put(job)
        before, after = self.seat_map.put(job)
        if before is after:
            return
        self._book_seat_time(job.product_id, before, after, job.updated_at)
        self._reseat(before, after)

    def reserve(
        self,
        job_id: str,
        factory_id: str,
        engine: str | None,
        holds: tuple[str, ...],
        *,
        now: datetime,
    ) -> None:
        """Count seats as taken until the commit is decided; the next version of the job ends it."""
        before, after = self.seat_map.reserve(job_id, factory_id, engine, holds, now=now)
        self._reseat(before, after)

    @contextmanager
    def hypothetical_seats(self, now: datetime) -> Iterator[SupposeSeats]:
        """Yield a function that counts seats as taken, undone at the end of the block."""
        earlier: dict[str, JobSeats | None] = {}

        def suppose(
            job_id: str, factory_id: str, engine: str | None, holds: tuple[str, ...]
        ) -> None:
            before, after = self.seat_map.reserve(job_id, factory_id, engine, holds, now=now)
            earlier.setdefault(job_id, before)
            self._reseat(before, after)

        try:
            yield suppose
        finally:
            for job_id, before in earlier.items():
                self._reseat(before, self.seat_map.restore(job_id, before))

    def forget_job(self, job_id: str) -> None:
        """Release the seats of a deleted job."""
        self.running_jobs.forget(job_id)
        before = self.seat_map.forget(job_id)
        if before is not None:
            self._book_seat_time(before.product_id, before, None, before.at)
            self._reseat(before)

    def put_product(self, product: Product) -> None:
        """Update the settings of a product."""
        self._products[product.id] = product

    def put_switch(self, switch: HaltSwitch) -> None:
        """Update the halt switch of a product or of the fleet."""
        self._switches[switch.product_id] = switch

    def put_budget(self, budget: Budget, *, now: datetime) -> None:
        """Update the budget of a product; call again when a new day begins."""
        product_id = budget.product_id
        self._budgets[product_id] = budget
        self._refusals.clear()
        self.budget_stops.pop(product_id, None)
        self.budget_left.pop(product_id, None)
        if (stopped := budget.stop_reason(now)) is not None:
            self.budget_stops[product_id] = stopped
        if budget.terms.ceiling_nano_usd is not None:
            self.budget_left[product_id] = max(0.0, 1 - budget.percent_spent(now) / 100)

    def budget_refusal(self, job_class: JobClass, now: datetime) -> str | None:
        """Return why the budget does not allow a run of a class; None when it does."""
        budget = self._budgets.get(job_class.product_id)
        if budget is None or job_class.step is not Step.RUN:
            return None
        if job_class not in self._refusals:
            self._refusals[job_class] = reservation_refusal(budget, job_class.ask, now=now)
        return self._refusals[job_class]

    def advance(self, now: datetime) -> None:
        """Apply the passing of time: silent factories go offline, cool-downs end."""
        self._now = max(self._now, now)
        while self._timers and self._timers[0][0] <= self._now:
            due_at, factory_id = heappop(self._timers)
            member = self._members.get(factory_id)
            if member is not None and member.check_at == due_at:
                member.check_at = None
                self._refresh(member)

    def member(self, factory_id: str) -> Member | None:
        """Return one factory; None when it is not enrolled."""
        return self._members.get(factory_id)

    def members(self) -> Iterable[Member]:
        """Return every factory, sorted by id; for reports, too slow for decisions."""
        return (self._members[factory_id] for factory_id in sorted(self._members))

    def pools(self) -> Iterable[Pool]:
        """Return the factories grouped by equal traits."""
        return self._pools.values()

    @property
    def product_ids(self) -> frozenset[str]:
        """The ids of the products that have a record."""
        return frozenset(self._products)

    def product(self, product_id: str) -> Product:
        """Return a product's settings; the defaults when it has no record."""
        product = self._products.get(product_id)
        return product if product is not None else Product(id=product_id)

    def stop_reason(self, product_id: str) -> str | None:
        """Return why no job of a product may start; None when jobs may start."""
        for key in (FLEET, product_id):
            switch = self._switches.get(key)
            if switch is not None and switch.halted:
                whole = "the fleet" if key == FLEET else f"product {key}"
                why = f": {switch.reason}" if switch.reason else ""
                return f"{whole} was halted by {switch.by}{why}"
        return self.budget_stops.get(product_id)

    def seat_usage(self, product_id: str, now: datetime) -> float:
        """Return a product's recent seat time divided by its share; the lowest goes first."""
        return self._seat_time.used(product_id, now) / self.share(product_id)

    def projected_usage(self, product_id: str, now: datetime) -> float:
        """Return a product's seat usage as it would be halfway through its next run.

        Past usage alone would give products with a small share more than that share. A product
        with no usage comes first whatever its share, so none starves.
        """
        used = self._seat_time.used(product_id, now)
        return (used + min(used, self._seat_time.typical(now) / 2)) / self.share(product_id)

    def share(self, product_id: str) -> float:
        """Return a product's weight in the fair share, always above 0."""
        return max(self.product(product_id).share, SHARE_MIN)

    def free_seats(self, factory_id: str, engine: str | None, now: datetime) -> int:
        """Return how many runs could start now on a factory with an engine (None: no engine)."""
        member = self._members.get(factory_id)
        if member is None:
            return 0
        slots = member.factory.slots - self.seat_map.slots_taken(factory_id)
        if engine is None:
            return max(0, slots)
        name = base_engine(engine)
        engine_seats = member.factory.engines.get(name)
        if engine_seats is None or not engine_seats.is_ready(now):
            return 0
        left = self.seat_map.fleet_seats_free(name)
        seats = engine_seats.seats - self.seat_map.seats_taken(factory_id, name)
        return max(0, min(slots, seats, slots if left is None else left))

    def seat_keys(self, factory_id: str, engine: str | None) -> tuple[str, ...] | None:
        """Return the unique keys that a run would take; None without a free seat or the engine."""
        member = self._members.get(factory_id)
        name = base_engine(engine) if engine is not None else None
        if member is None or (name is not None and name not in member.factory.engines):
            return None
        return self.seat_map.free_keys(member.factory, name)

    def fit(self, job_class: JobClass, pool: Pool) -> Fit | Rejection:
        """Return how a class fits a pool; cached."""
        cached = pool.cached_fit(job_class)
        if cached is None:
            cached = match(job_class, pool.traits, self._common, self.classes)
            pool.cache_fit(job_class, cached)
        return cached

    def rarities(self, demanded: frozenset[str]) -> Mapping[Pool, Rarities]:
        """Return, per pool, its demanded tokens with the fraction of factories that lack each."""
        if self._rarities is None or self._rarities[0] != demanded:
            self._rarities = (demanded, self._work_out_rarities(demanded))
        return self._rarities[1]

    def scarcity(self, kinds: frozenset[JobClass]) -> Scarcity:
        """Return which pools are scarce while these classes wait; cached."""
        if self._scarcity is None or self._scarcity[0] is not kinds:
            self._scarcity = (kinds, Scarcity(kinds, self._pools.values(), self.fit))
        return self._scarcity[1]

    def _work_out_rarities(self, demanded: frozenset[str]) -> dict[Pool, Rarities]:
        sizes = {pool: len(pool.members) for pool in self._pools.values()}
        total = sum(sizes.values())
        rare: dict[Pool, list[tuple[str, float]]] = {pool: [] for pool in sizes}
        for token in sorted(demanded):
            having = [pool for pool in sizes if meets(token, pool.traits.tokens)]
            missing_count = total - sum(sizes[pool] for pool in having)
            if missing_count:
                for pool in having:
                    rare[pool].append((token, missing_count / total))
        return {pool: tuple(engines) for pool, engines in rare.items()}

    def _pool(self, traits: FactoryTraits) -> Pool:
        pool = self._pools.get(traits)
        if pool is None:
            pool = self._pools[traits] = Pool(traits)
            self._refresh_common()
        return pool

    def _leave(self, member: Member) -> None:
        """Take a factory out of its pool, and remember its capabilities."""
        pool = member.pool
        pool.discard(member)
        self._rarities = None
        self._scarcity = None
        if not pool.members:
            del self._pools[pool.traits]
            self._refresh_common()
        until = member.vitals.last_seen if member.vitals is not None else self._now
        capabilities = PastCapabilities(pool.traits.tokens, pool.traits.products)
        self.remember_capabilities(member.factory.id, capabilities, until)

    def _refresh_common(self) -> None:
        tokens = [pool.traits.tokens for pool in self._pools.values()]
        common = frozenset.intersection(*tokens) if tokens else frozenset()
        if common != self._common:
            self._common = common
            for pool in self._pools.values():
                pool.forget_fits()

    def _refresh(self, member: Member) -> None:
        """Re-sort a factory within its pool, and schedule the next check."""
        member.pool.discard(member)
        before = member.presence
        if member.vitals is not None:
            member.fresh_health = member.health(member.vitals.last_seen)
        member.presence = member.presence_at(self._now)
        if member.presence is not before:
            self._scarcity = None
        member.occupancy = self._room(member)
        member.pool.add(member)
        following = member.next_change(self._now)
        if following is not None and (member.check_at is None or following < member.check_at):
            member.check_at = following
            heappush(self._timers, (following, member.factory.id))

    def _room(self, member: Member) -> Occupancy:
        factory, seat_map = member.factory, self.seat_map
        taken = seat_map.slots_taken(factory.id)
        if taken >= factory.slots:
            return FULL
        free = []
        for name in member.pool.traits.engines:
            engine = factory.engines[name]
            free.append(
                engine.is_ready(self._now) and engine.seats > seat_map.seats_taken(factory.id, name)
            )
        return Occupancy(taken / factory.slots, tuple(free))

    def _reseat(self, *job_seats: JobSeats | None) -> None:
        ids = {hold.factory_id for one in job_seats if one for hold in one.seats}
        for factory_id in ids:
            member = self._members.get(factory_id)
            if member is not None and (room := self._room(member)) != member.occupancy:
                member.pool.discard(member)
                member.occupancy = room
                member.pool.add(member)

    def _book_seat_time(
        self, product_id: str, before: JobSeats | None, after: JobSeats | None, at: datetime
    ) -> None:
        """Book the seat time of leases that started or ended between two versions of a job."""
        old, new = _leases(before), _leases(after)
        for epoch in sorted(new.keys() - old.keys()):
            self._seat_time.start(product_id, new[epoch])
        for epoch in sorted(old.keys() - new.keys()):
            self._seat_time.end(product_id, max(at, old[epoch]))


def _leases(job_seats: JobSeats | None) -> dict[int, datetime]:
    holds = job_seats.seats if job_seats is not None else ()
    return {
        hold.epoch: hold.begun
        for hold in holds
        if hold.epoch is not None and hold.begun is not None
    }
