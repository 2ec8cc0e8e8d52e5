"""Fleet metrics, for dashboards and metrics collectors."""

import msgspec

from gigafactory.coordinator.core.counters import Counters
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.coordinator.fleet.factories import Factories
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.insights.gauges import Gauges, read_gauges
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.domain.errors import Unavailable
from gigafactory.domain.fleet.factory import is_online
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FeedEntry
from gigafactory.domain.job.job import BOARD, Stage
from gigafactory.domain.tenancy.access import Caller, Role
from gigafactory.wire.fleet import Capacity, FleetMetrics


class MetricsSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a metrics collector scrapes at once."""

    counters: Counters
    gauges: Gauges
    fleet: FleetMetrics | None
    """None while the store is unavailable."""
    feed_behind: int
    """Number of feed events that the index has not processed yet."""


EVERYTHING = Caller(actor="system:metrics", role=Role.VIEWER, products=("*",))


class MetricsCollector:
    """Collects metrics, and measures the lag of the change feed."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        index: Index,
        jobs: JobQueries,
        factories: Factories,
        counters: Counters,
    ) -> None:
        self._store = store
        self._clock = clock
        self._index = index
        self._jobs = jobs
        self._factories = factories
        self.counters = counters
        index.subscribe(self._notice)

    def _notice(self, entry: FeedEntry) -> None:
        lag = (self._clock.now() - entry.event.at).total_seconds()
        self.counters.feed_lag_s.observe(lag)
        if entry.event.type == event_types.OFFERED:
            self.counters.dispatch_lag_s.observe(lag)

    async def snapshot(self) -> MetricsSnapshot:
        """Return the current metrics; without the store, only those in memory."""
        lag, fleet = 0, None
        try:
            lag = max(await self._store.position() - self._index.position, 0)
            fleet = await self.fleet_metrics(EVERYTHING)
        except Unavailable:
            self.counters.store_failures += 1
        now = self._clock.now()
        return MetricsSnapshot(
            counters=self.counters,
            gauges=read_gauges(self._index, self.counters, now),
            fleet=fleet,
            feed_behind=lag,
        )

    async def fleet_metrics(self, caller: Caller) -> FleetMetrics:
        """Return the metrics of the caller's chosen or visible products."""
        stages = await self._jobs.count_by_stage(caller)
        return FleetMetrics(
            stages=stages,
            board={
                column: sum(stages[stage] for stage in collapsed)
                for column, collapsed in BOARD.items()
            },
            queue_depth=stages[Stage.QUEUED],
            factories=await self._capacity(caller),
        )

    async def _capacity(self, caller: Caller) -> Capacity:
        await self._index.catch_up()
        now = self._clock.now()
        factories = await self._factories.all(caller)
        alive = [f for f in factories if is_online(self._factories.vitals(f.id), now)]
        slots = sum(factory.slots for factory in alive)
        running = sum(len(self._index.assignments.leased_jobs(factory.id)) for factory in factories)
        return Capacity(
            total=len(factories),
            online=len(alive),
            draining=sum(factory.draining for factory in factories),
            streaming=sum(factory.streaming is not None for factory in factories),
            slots=slots,
            running=running,
            utilization=round(min(1.0, running / slots), 4) if slots else 0.0,
        )
