"""One coordinator's way to the shared store, on which calls are slow, get lost or find it away."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from gigafactory.coordinator.core.ports import PAGE_MAX, JobQuery
from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.change import CommitResult, FeedEntry, Record, Stored, Write
from gigafactory.domain.job.job import Event, Job, JobSpec, Stage
from gigafactory.store.memory import MemoryStore
from tests.simulation.history import History
from tests.simulation.weather import Weather

Value = TypeVar("Value")
AnyRecord = TypeVar("AnyRecord", bound=Record)
Call = Callable[[], Awaitable[Value]]

AWAY = "the store is away; ask again with the same key"


class FaultyStore:
    """The store port of one process; after its death, calls do nothing."""

    def __init__(
        self,
        name: str,
        inner: MemoryStore,
        rng: random.Random,
        history: History,
        weather: Weather,
    ) -> None:
        """Stand before the shared store, for the coordinator of this name, in this weather."""
        self._name = name
        self.inner = inner
        self.weather = weather
        self.dead = False
        self.away_until = 0.0
        self.still_until = 0.0
        self._rng = rng
        self._history = history

    @property
    def rollbacks(self) -> int:
        return self.inner.rollbacks

    async def _ask(self, call: Call[Value]) -> Value:
        await self._way()
        answer = await call()
        await self._way()
        return answer

    async def _way(self) -> None:
        """One direction: mostly quick, sometimes slow; nothing passes while it is away."""
        self._require()
        if (still := self.still_until - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(still)
        if self._rng.random() < self.weather.slow_store:
            await asyncio.sleep(self._rng.choice((0.002, 0.02, 0.2, 1.5)) * self._rng.random())
        self._require()

    def _require(self) -> None:
        if self.dead or asyncio.get_running_loop().time() < self.away_until:
            raise Unavailable(AWAY)

    async def commit(self, *writes: Write) -> CommitResult:
        await self._way()
        lost = self._rng.random() < self.weather.lost_commits
        if lost and self._rng.random() < 0.5:
            raise Unavailable(AWAY)
        verdict = await self.inner.commit(*writes)
        if isinstance(verdict, Stored):
            self._history.committed(self._name, writes, verdict.position)
        if lost:
            raise Unavailable(AWAY)
        await self._way()
        return verdict

    async def wait_for_change(self, after: int) -> None:
        if self.dead:
            raise Unavailable(AWAY)
        if self._rng.random() < self.weather.missed_bells:
            await asyncio.sleep(5.0)
        else:
            await self.inner.wait_for_change(after)

    async def job(self, job_id: str) -> Job | None:
        return await self._ask(lambda: self.inner.job(job_id))

    async def jobs(self, job_ids: Collection[str]) -> Mapping[str, Job]:
        return await self._ask(lambda: self.inner.jobs(job_ids))

    async def find_jobs(self, query: JobQuery) -> Sequence[Job]:
        return await self._ask(lambda: self.inner.find_jobs(query))

    async def specs(self, job_ids: Collection[str]) -> Mapping[str, JobSpec]:
        return await self._ask(lambda: self.inner.specs(job_ids))

    async def events(
        self, job_id: str, *, after: int = 0, limit: int = PAGE_MAX
    ) -> Sequence[Event]:
        return await self._ask(lambda: self.inner.events(job_id, after=after, limit=limit))

    async def audit(
        self, products: tuple[str, ...] | None, *, before: int | None = None, limit: int = 50
    ) -> Sequence[Event]:
        return await self._ask(lambda: self.inner.audit(products, before=before, limit=limit))

    async def feed(self, *, after: int, limit: int = PAGE_MAX) -> Sequence[FeedEntry]:
        return await self._ask(lambda: self.inner.feed(after=after, limit=limit))

    async def position(self) -> int:
        return await self._ask(self.inner.position)

    async def key_owners(self, keys: Collection[str]) -> Mapping[str, str]:
        return await self._ask(lambda: self.inner.key_owners(keys))

    async def keys_with_prefix(self, prefix: str) -> Mapping[str, str]:
        return await self._ask(lambda: self.inner.keys_with_prefix(prefix))

    async def jobs_with_expired_leases(
        self, now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[Job]:
        return await self._ask(lambda: self.inner.jobs_with_expired_leases(now, limit=limit))

    async def dependents(self, job_id: str) -> Sequence[Job]:
        return await self._ask(lambda: self.inner.dependents(job_id))

    async def record(self, of: type[AnyRecord], key: str) -> AnyRecord | None:
        return await self._ask(lambda: self.inner.record(of, key))

    async def records_by_key(
        self, of: type[AnyRecord], keys: Collection[str]
    ) -> Mapping[str, AnyRecord]:
        return await self._ask(lambda: self.inner.records_by_key(of, keys))

    async def records(
        self, of: type[AnyRecord], *, prefix: str = "", after: str = "", limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        return await self._ask(
            lambda: self.inner.records(of, prefix=prefix, after=after, limit=limit)
        )

    async def expired_records(
        self, of: type[AnyRecord], now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        return await self._ask(lambda: self.inner.expired_records(of, now, limit=limit))

    async def last_seen(self) -> Mapping[str, datetime]:
        return await self._ask(self.inner.last_seen)

    async def count_jobs_by_stage(self, products: tuple[str, ...] | None) -> Mapping[Stage, int]:
        return await self._ask(lambda: self.inner.count_jobs_by_stage(products))
