"""One coordinator's connection to the shared store: slow, down, or silent about a commit."""

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
from tests.simulation.faults import FaultRates
from tests.simulation.history import History

Value = TypeVar("Value")
AnyRecord = TypeVar("AnyRecord", bound=Record)
Call = Callable[[], Awaitable[Value]]

STORE_DOWN = "the store is down; retry with the same key"


class FaultyStore:
    """The store port of one process; every call fails after the process has died."""

    def __init__(
        self,
        name: str,
        inner: MemoryStore,
        rng: random.Random,
        history: History,
        faults: FaultRates,
    ) -> None:
        """Wrap the shared store for the coordinator of this name."""
        self._name = name
        self.inner = inner
        self.faults = faults
        self.dead = False
        self.down_until = 0.0
        self.stalled_until = 0.0
        self._rng = rng
        self._history = history

    @property
    def rollbacks(self) -> int:
        return self.inner.rollbacks

    async def _call(self, call: Call[Value]) -> Value:
        await self._transit()
        response = await call()
        await self._transit()
        return response

    async def _transit(self) -> None:
        """Delay one direction of a call; raise Unavailable while the store is down."""
        self._require_up()
        if (remaining := self.stalled_until - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(remaining)
        if self._rng.random() < self.faults.slow_store:
            await asyncio.sleep(self._rng.choice((0.002, 0.02, 0.2, 1.5)) * self._rng.random())
        self._require_up()

    def _require_up(self) -> None:
        if self.dead or asyncio.get_running_loop().time() < self.down_until:
            raise Unavailable(STORE_DOWN)

    async def commit(self, *writes: Write) -> CommitResult:
        await self._transit()
        lost = self._rng.random() < self.faults.lost_commits
        if lost and self._rng.random() < 0.5:
            raise Unavailable(STORE_DOWN)
        result = await self.inner.commit(*writes)
        if isinstance(result, Stored):
            self._history.committed(self._name, writes, result.position)
        if lost:
            raise Unavailable(STORE_DOWN)
        await self._transit()
        return result

    async def wait_for_change(self, after: int) -> None:
        if self.dead:
            raise Unavailable(STORE_DOWN)
        if self._rng.random() < self.faults.missed_wakeups:
            await asyncio.sleep(5.0)
        else:
            await self.inner.wait_for_change(after)

    async def job(self, job_id: str) -> Job | None:
        return await self._call(lambda: self.inner.job(job_id))

    async def jobs(self, job_ids: Collection[str]) -> Mapping[str, Job]:
        return await self._call(lambda: self.inner.jobs(job_ids))

    async def find_jobs(self, query: JobQuery) -> Sequence[Job]:
        return await self._call(lambda: self.inner.find_jobs(query))

    async def specs(self, job_ids: Collection[str]) -> Mapping[str, JobSpec]:
        return await self._call(lambda: self.inner.specs(job_ids))

    async def events(
        self, job_id: str, *, after: int = 0, limit: int = PAGE_MAX
    ) -> Sequence[Event]:
        return await self._call(lambda: self.inner.events(job_id, after=after, limit=limit))

    async def audit(
        self, products: tuple[str, ...] | None, *, before: int | None = None, limit: int = 50
    ) -> Sequence[Event]:
        return await self._call(lambda: self.inner.audit(products, before=before, limit=limit))

    async def feed(self, *, after: int, limit: int = PAGE_MAX) -> Sequence[FeedEntry]:
        return await self._call(lambda: self.inner.feed(after=after, limit=limit))

    async def position(self) -> int:
        return await self._call(self.inner.position)

    async def key_owners(self, keys: Collection[str]) -> Mapping[str, str]:
        return await self._call(lambda: self.inner.key_owners(keys))

    async def keys_with_prefix(self, prefix: str) -> Mapping[str, str]:
        return await self._call(lambda: self.inner.keys_with_prefix(prefix))

    async def jobs_with_expired_leases(
        self, now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[Job]:
        return await self._call(lambda: self.inner.jobs_with_expired_leases(now, limit=limit))

    async def dependents(self, job_id: str) -> Sequence[Job]:
        return await self._call(lambda: self.inner.dependents(job_id))

    async def record(self, of: type[AnyRecord], key: str) -> AnyRecord | None:
        return await self._call(lambda: self.inner.record(of, key))

    async def records_by_key(
        self, of: type[AnyRecord], keys: Collection[str]
    ) -> Mapping[str, AnyRecord]:
        return await self._call(lambda: self.inner.records_by_key(of, keys))

    async def records(
        self, of: type[AnyRecord], *, prefix: str = "", after: str = "", limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        return await self._call(
            lambda: self.inner.records(of, prefix=prefix, after=after, limit=limit)
        )

    async def expired_records(
        self, of: type[AnyRecord], now: datetime, *, limit: int = PAGE_MAX
    ) -> Sequence[AnyRecord]:
        return await self._call(lambda: self.inner.expired_records(of, now, limit=limit))

    async def last_seen(self) -> Mapping[str, datetime]:
        return await self._call(self.inner.last_seen)

    async def count_jobs_by_stage(self, products: tuple[str, ...] | None) -> Mapping[Stage, int]:
        return await self._call(lambda: self.inner.count_jobs_by_stage(products))
