"""The fleet in memory: factories by shape, their seats, products, switches and shares."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from heapq import heappop, heappush

from gigafactory.domain.fleet.factory import Factory, Vitals
from gigafactory.domain.fleet.matching import Fit, Rejection, Traits, match
from gigafactory.domain.fleet.pool import FULL, Member, Pool, Room
from gigafactory.domain.fleet.running_jobs import Incumbents
from gigafactory.domain.fleet.scarcity import Reach
from gigafactory.domain.fleet.seat_usage import SeatTime
from gigafactory.domain.fleet.seats import Seated, Seating
from gigafactory.domain.insights.routing_predictor import Guide
from gigafactory.domain.job.change import FLEET
from gigafactory.domain.job.job import Job, Step
from gigafactory.domain.manifest.capability import satisfied
from gigafactory.domain.manifest.engine_ref import CLASSES, program
from gigafactory.domain.manifest.manifest import EngineClass
from gigafactory.domain.queue.queued_job import JobClass
from gigafactory.domain.tenancy.budget import Budget
from gigafactory.domain.tenancy.budget_spending import refusal
from gigafactory.domain.tenancy.product import Product, Switch

FORMER_MAX = 1000
SHARE_MIN = 1e-6
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

Rarities = tuple[tuple[str, float], ...]
Suppose = Callable[[str, str, str | None, tuple[str, ...]], None]
"""Takes a job, a factory, an engine and the keys that the run would hold."""


class FleetView:
    """What the scheduler knows of the fleet, from every version of every record put to it."""

    def __init__(
        self,
        *,
        fleet_seats: Mapping[str, int] | None = None,
        classes: Mapping[str, EngineClass] = CLASSES,
    ) -> None:
        self.seating = Seating(fleet_seats or {})
        self.incumbents = Incumbents()
        self.guide = Guide()
        self.paused: dict[str, str] = {}
        """Products that get nothing because of their budget, and the sentence that says so."""
        self.budget_left: dict[str, float] = {}
        """What share of its budget a product has left, 0 to 1, where it has one."""
        self.former: dict[frozenset[str], tuple[str, datetime]] = {}
        """What was advertised once: by whom last, and until when."""
        self.classes = classes
        self._members: dict[str, Member] = {}
        self._pools: dict[Traits, Pool] = {}
        self._products: dict[str, Product] = {}
        self._switches: dict[str, Switch] = {}
        self._budgets: dict[str, Budget] = {}
        self._refusals: dict[JobClass, str | None] = {}
        self._seat_time = SeatTime()
        self._alarms: list[tuple[datetime, str]] = []
        self._now = _LONG_AGO
        self._common: frozenset[str] = frozenset()
        """The tokens that every factory advertises."""
        self._rare: tuple[frozenset[str], dict[Pool, Rarities]] | None = None
        self._reach: tuple[frozenset[JobClass], Reach] | None = None

    def put(self, factory: Factory) -> None:
        """Know this version of a factory."""
        member = self._members.get(factory.id)
        traits = Traits.of(factory)
        if member is None:
            member = Member(factory, self._pool(traits))
            self._members[factory.id] = member
            member.pool.add(member)
            self._rare = None
        elif member.pool.traits == traits:
            member.pool.discard(member)
            member.factory = factory
            member.pool.add(member)
        else:
            self._leave(member)
            member.factory, member.pool = factory, self._pool(traits)
            member.pool.add(member)
        self._reach = None
        self._refresh(member)

    def remove(self, factory_id: str) -> None:
        """Forget a factory; what it advertised is remembered as bygone."""
        member = self._members.pop(factory_id, None)
        if member is not None:
            self._leave(member)

    def seen(self, factory_id: str, vitals: Vitals) -> None:
        """Note a sign of life; one of a factory that is not enrolled is ignored."""
        member = self._members.get(factory_id)
        if member is not None:
            member.vitals = vitals
            self._refresh(member)

    def recall(self, factory_id: str, tokens: frozenset[str], until: datetime) -> None:
        """Know what a factory once advertised; of very many, the oldest are forgotten."""
        self.former.pop(tokens, None)
        self.former[tokens] = (factory_id, until)
        if len(self.former) > FORMER_MAX:
            del self.former[next(iter(self.former))]

    def put_job(self, job: Job) -> None:
        """Know this version of a job: the seats that its leases and its offer take up."""
        self.incumbents.put(job)
        before, after = self.seating.put(job)
        if before is after:
            return
        self._reckon(job.product_id, before, after, job.updated_at)
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
        """Count seats as taken while a commit decides; the next version of the job ends it."""
        before, after = self.seating.reserve(job_id, factory_id, engine, holds, now=now)
        self._reseat(before, after)

    @contextmanager
    def supposing(self, now: datetime) -> Iterator[Suppose]:
        """Count seats as taken by what is only supposed, for as long as the block lasts."""
        as_it_was: dict[str, Seated | None] = {}

        def suppose(
            job_id: str, factory_id: str, engine: str | None, holds: tuple[str, ...]
        ) -> None:
            before, after = self.seating.reserve(job_id, factory_id, engine, holds, now=now)
            as_it_was.setdefault(job_id, before)
            self._reseat(before, after)

        try:
            yield suppose
        finally:
            for job_id, before in as_it_was.items():
                self._reseat(before, self.seating.put_back(job_id, before))

    def forget(self, job_id: str) -> None:
        """Let go of the seats of a job that is gone."""
        self.incumbents.forget(job_id)
        before = self.seating.forget(job_id)
        if before is not None:
            self._reckon(before.product_id, before, None, before.at)
            self._reseat(before)

    def put_product(self, product: Product) -> None:
        """Know this version of a product: its share and its weights."""
        self._products[product.id] = product

    def put_switch(self, switch: Switch) -> None:
        """Know whether a product, or the fleet, is halted."""
        self._switches[switch.product_id] = switch

    def put_budget(self, budget: Budget, *, now: datetime) -> None:
        """Know what a product may spend; to be put again when a new day begins."""
        product_id = budget.product_id
        self._budgets[product_id] = budget
        self._refusals.clear()
        self.paused.pop(product_id, None)
        self.budget_left.pop(product_id, None)
        if (stopped := budget.stopped(now)) is not None:
            self.paused[product_id] = stopped
        if budget.terms.ceiling_nano_usd is not None:
            self.budget_left[product_id] = max(0.0, 1 - budget.percent(now) / 100)

    def unaffordable(self, job_class: JobClass, now: datetime) -> str | None:
        """Say why the budget has no room for a run of a class; None when it has."""
        budget = self._budgets.get(job_class.product_id)
        if budget is None or job_class.step is not Step.RUN:
            return None
        if job_class not in self._refusals:
            self._refusals[job_class] = refusal(budget, job_class.ask, now=now)
        return self._refusals[job_class]

    def advance(self, now: datetime) -> None:
        """Let time pass: the silent fade and go offline, and engines that rested are back."""
        self._now = max(self._now, now)
        while self._alarms and self._alarms[0][0] <= self._now:
            when, factory_id = heappop(self._alarms)
            member = self._members.get(factory_id)
            if member is not None and member.check_at == when:
                member.check_at = None
                self._refresh(member)

    def member(self, factory_id: str) -> Member | None:
        """Give what is known of one factory."""
        return self._members.get(factory_id)

    def members(self) -> Iterable[Member]:
        """Give every factory, in the order of ids; for people's questions, not for decisions."""
        return (self._members[factory_id] for factory_id in sorted(self._members))

    def pools(self) -> Iterable[Pool]:
        """Give the factories by shape."""
        return self._pools.values()

    @property
    def product_ids(self) -> frozenset[str]:
        """The products that were set up."""
        return frozenset(self._products)

    def product(self, product_id: str) -> Product:
        """Give a product's settings; the defaults for one that has none."""
        known = self._products.get(product_id)
        return known if known is not None else Product(id=product_id)

    def stopped(self, product_id: str) -> str | None:
        """Say why a product gets nothing just now; None when it may."""
        for key in (FLEET, product_id):
            switch = self._switches.get(key)
            if switch is not None and switch.halted:
                whole = "the fleet" if key == FLEET else f"product {key}"
                why = f": {switch.reason}" if switch.reason else ""
                return f"{whole} was halted by {switch.by}{why}"
        return self.paused.get(product_id)

    def used(self, product_id: str, now: datetime) -> float:
        """Give a product's recent seat-time over its weight: who has least goes first."""
        return self._seat_time.used(product_id, now) / self.share(product_id)

    def due(self, product_id: str, now: datetime) -> float:
        """Give what a product would have used halfway through its next run, over its weight.

        Judged by what they have used alone, the light ones would get more than they are due. One
        that has used nothing comes first whatever its weight: so none starves.
        """
        used = self._seat_time.used(product_id, now)
        return (used + min(used, self._seat_time.typical(now) / 2)) / self.share(product_id)

    def share(self, product_id: str) -> float:
        """Give a product's weight in the sharing of seat-time, never nothing."""
        return max(self.product(product_id).share, SHARE_MIN)

    def free(self, factory_id: str, engine: str | None, now: datetime) -> int:
        """Count the runs that could start on a factory with an engine now (None: without one)."""
        member = self._members.get(factory_id)
        if member is None:
            return 0
        slots = member.factory.slots - self.seating.slots(factory_id)
        if engine is None:
            return max(0, slots)
        name = program(engine)
        here = member.factory.engines.get(name)
        if here is None or not here.ready(now):
            return 0
        left = self.seating.fleet_free(name)
        seats = here.seats - self.seating.seats(factory_id, name)
        return max(0, min(slots, seats, slots if left is None else left))

    def seats(self, factory_id: str, engine: str | None) -> tuple[str, ...] | None:
        """Give the unique keys that a run would take; None without room or engine."""
        member = self._members.get(factory_id)
        name = program(engine) if engine is not None else None
        if member is None or (name is not None and name not in member.factory.engines):
            return None
        return self.seating.free_keys(member.factory, name)

    def fit(self, job_class: JobClass, pool: Pool) -> Fit | Rejection:
        """Tell how a class suits a shape; worked out once for the two."""
        known = pool.fit(job_class)
        if known is None:
            known = match(job_class, pool.traits, self._common, self.classes)
            pool.remember(job_class, known)
        return known

    def rarities(self, demanded: frozenset[str]) -> Mapping[Pool, Rarities]:
        """Give what each shape has of what is waited for, and how many factories lack it."""
        if self._rare is None or self._rare[0] != demanded:
            self._rare = (demanded, self._work_out_rarities(demanded))
        return self._rare[1]

    def reach(self, kinds: frozenset[JobClass]) -> Reach:
        """Give where classes could go while these wait; worked out anew when something changed."""
        if self._reach is None or self._reach[0] is not kinds:
            self._reach = (kinds, Reach(kinds, self._pools.values(), self.fit))
        return self._reach[1]

    def _work_out_rarities(self, demanded: frozenset[str]) -> dict[Pool, Rarities]:
        sizes = {pool: len(pool.members) for pool in self._pools.values()}
        total = sum(sizes.values())
        rare: dict[Pool, list[tuple[str, float]]] = {pool: [] for pool in sizes}
        for token in sorted(demanded):
            having = [pool for pool in sizes if satisfied(token, pool.traits.tokens)]
            lacking = total - sum(sizes[pool] for pool in having)
            if lacking:
                for pool in having:
                    rare[pool].append((token, lacking / total))
        return {pool: tuple(found) for pool, found in rare.items()}

    def _pool(self, traits: Traits) -> Pool:
        pool = self._pools.get(traits)
        if pool is None:
            pool = self._pools[traits] = Pool(traits)
            self._shapes_moved()
        return pool

    def _leave(self, member: Member) -> None:
        """Take a factory out of its shape, and note until when it advertised what it did."""
        pool = member.pool
        pool.discard(member)
        self._rare = None
        self._reach = None
        if not pool.members:
            del self._pools[pool.traits]
            self._shapes_moved()
        until = member.vitals.last_seen if member.vitals is not None else self._now
        self.recall(member.factory.id, pool.traits.tokens, until)

    def _shapes_moved(self) -> None:
        tokens = [pool.traits.tokens for pool in self._pools.values()]
        common = frozenset.intersection(*tokens) if tokens else frozenset()
        if common != self._common:
            self._common = common
            for pool in self._pools.values():
                pool.forget_fits()

    def _refresh(self, member: Member) -> None:
        """Put a factory where it now belongs, and look again when time alone may change that."""
        member.pool.discard(member)
        before = member.presence
        if member.vitals is not None:
            member.vigour = member.health(member.vitals.last_seen)
        member.presence = member.presence_at(self._now)
        if member.presence is not before:
            self._reach = None
        member.room = self._room(member)
        member.pool.add(member)
        following = member.changes_at(self._now)
        if following is not None and (member.check_at is None or following < member.check_at):
            member.check_at = following
            heappush(self._alarms, (following, member.factory.id))

    def _room(self, member: Member) -> Room:
        factory, seating = member.factory, self.seating
        taken = seating.slots(factory.id)
        if taken >= factory.slots:
            return FULL
        free = []
        for name in member.pool.traits.engines:
            engine = factory.engines[name]
            free.append(engine.ready(self._now) and engine.seats > seating.seats(factory.id, name))
        return Room(taken / factory.slots, tuple(free))

    def _reseat(self, *seated: Seated | None) -> None:
        ids = {sitting.factory_id for one in seated if one for sitting in one.sittings}
        for factory_id in ids:
            member = self._members.get(factory_id)
            if member is not None and (room := self._room(member)) != member.room:
                member.pool.discard(member)
                member.room = room
                member.pool.add(member)

    def _reckon(
        self, product_id: str, before: Seated | None, after: Seated | None, at: datetime
    ) -> None:
        """Book the seat-time of leases that began or ended between two versions of a job."""
        old, new = _leases(before), _leases(after)
        for epoch in sorted(new.keys() - old.keys()):
            self._seat_time.begin(product_id, new[epoch])
        for epoch in sorted(old.keys() - new.keys()):
            self._seat_time.end(product_id, max(at, old[epoch]))


def _leases(seated: Seated | None) -> dict[int, datetime]:
    sittings = seated.sittings if seated is not None else ()
    return {
        sitting.epoch: sitting.begun
        for sitting in sittings
        if sitting.epoch is not None and sitting.begun is not None
    }
