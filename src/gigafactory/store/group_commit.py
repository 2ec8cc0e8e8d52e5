"""Group commit: commits that arrive during a batch share the next batch and its sync."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.change import (
    CommitResult,
    FeedEntry,
    Guard,
    JobChange,
    JobDeletion,
    LeaseExpiredGuard,
    LeaseExtension,
    RecordChange,
    Renewal,
    Stored,
    Write,
)

BATCH_WRITES_MAX = 512
FEW_WRITES = 64
"""With fewer writes than this, wait for more: a sync is expensive."""
STOPPED = "the store was stopped before it could answer; ask again with the same key"

Group = tuple[Write, ...]


class BatchResult(NamedTuple):
    """The result of a batch: a verdict for each group, and the events of the stored ones."""

    verdicts: list[CommitResult]
    entries: Sequence[FeedEntry] = ()


Apply = Callable[[list[Group]], Awaitable[BatchResult]]


class OnCommitted(Protocol):
    """Who hears of the events that were kept, and of whether a job was forgotten with them."""

    def __call__(self, entries: Sequence[FeedEntry], *, forgot: bool) -> None:
        """Hear of a batch."""


class Footprint(NamedTuple):
    """The keys that a group writes and those that it only reads; `all_`: all keys."""

    written: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    all_: bool = False


def footprint(writes: Group) -> Footprint:
    """Return the keys that a group writes and reads; groups without conflicts share a batch."""
    written: set[str] = set()
    read: set[str] = set()
    for write in writes:
        match write:
            case JobChange():
                written.add(f"job/{write.after.id}")
                written.update(f"hold/{key}" for key in (*write.take, *write.free))
            case RecordChange():
                written.add(f"{write.record.kind}/{write.record.key}")
            case Renewal():
                written.add(f"job/{write.job_id}")
            case LeaseExtension() | JobDeletion():
                return Footprint(all_=True)
            case _:
                # Last-seen times only move forward, in whatever order they are written.
                continue
        if isinstance(write, JobChange | RecordChange):
            read.update(map(_looked_at, write.guards))
    return Footprint(frozenset(written), frozenset(read - written))


def _looked_at(guard: Guard) -> str:
    return (
        f"job/{guard.job_id}"
        if isinstance(guard, LeaseExpiredGuard)
        else f"{guard.kind}/{guard.key}"
    )


class _Waiting(NamedTuple):
    writes: Group
    touched: Footprint
    verdict: asyncio.Future[CommitResult]


class GroupCommit:
    """Gathers groups of writes into batches, one batch at a time, in the order of arrival.

    `apply` writes a batch in one transaction and answers with a verdict for each group; `told`
    hears of the events once every caller has its verdict, so that those who wrote go on before
    those who only follow. When it raises Unavailable, it is unknown what was stored; every caller
    of the batch hears that; when it raises anything else nothing was kept, and the groups are tried
    one by one, so that the fault of one is not the others'. With `touches`, groups that share a
    name which one of them writes go into different batches, in their order.
    """

    def __init__(
        self,
        apply: Apply,
        told: OnCommitted,
        *,
        touches: Callable[[Group], Footprint] | None = None,
        writes_max: int = BATCH_WRITES_MAX,
    ) -> None:
        self._apply = apply
        self._told = told
        self._touches = touches
        self._writes_max = writes_max
        self._waiting: deque[_Waiting] = deque()
        self._runner: asyncio.Task[None] | None = None
        self._closed = False

    async def commit(self, writes: Group) -> CommitResult:
        """Return the verdict on these writes; a cancelled caller does not disturb its batch.

        Raises Unavailable when it is not known whether they were kept, or after `close`.
        """
        if self._closed:
            raise Unavailable("the store is closed; start the coordinator again")
        verdict: asyncio.Future[CommitResult] = asyncio.get_running_loop().create_future()
        stands_on = self._touches(writes) if self._touches else Footprint()
        self._waiting.append(_Waiting(writes, stands_on, verdict))
        if self._runner is None:
            self._runner = asyncio.create_task(self._run(), name="group-commit")
        return await verdict

    async def close(self) -> None:
        """Accept no more writes, and return when all accepted ones have a verdict."""
        self._closed = True
        if self._runner is not None:
            await asyncio.wait([self._runner])

    async def _run(self) -> None:
        batch: list[_Waiting] = []
        try:
            while self._waiting:
                await self._gather()
                if batch := self._next():
                    await self._settle(batch)
        finally:
            self._runner = None
            # Anything left was waiting when the event loop cancelled this task.
            for one in (*batch, *self._waiting):
                _tell(one, Unavailable(STOPPED))
            self._waiting.clear()

    async def _gather(self) -> None:
        """Let pending requests add their writes, as long as each turn of the loop adds any.

        They keep the event loop busy, and a batch that starts meanwhile would wait for it anyway.
        """
        come = 0
        while come < len(self._waiting) and sum(len(w.writes) for w in self._waiting) < FEW_WRITES:
            come = len(self._waiting)
            await asyncio.sleep(0)

    def _next(self) -> list[_Waiting]:
        """Return the next batch in order, skipping groups that conflict with it."""
        batch: list[_Waiting] = []
        passed: deque[_Waiting] = deque()
        written: set[str] = set()
        read: set[str] = set()
        size = 0
        while self._waiting and size + len(passed) < self._writes_max:
            one = self._waiting.popleft()
            if one.verdict.done():
                continue
            if one.touched.all_ and (batch or passed):
                self._waiting.appendleft(one)
                break
            # Skipped groups block their keys too, so that the order per key is kept.
            clash = not written.isdisjoint(one.touched.written | one.touched.read)
            clash = clash or not read.isdisjoint(one.touched.written)
            written |= one.touched.written
            read |= one.touched.read
            if clash:
                passed.append(one)
                continue
            batch.append(one)
            size += len(one.writes)
            if one.touched.all_:
                break
        self._waiting.extendleft(reversed(passed))
        return batch

    async def _settle(self, batch: list[_Waiting]) -> None:
        try:
            applied = await self._apply([one.writes for one in batch])
        except Unavailable as fault:
            for one in batch:
                _tell(one, Unavailable(fault.detail))
        except Exception as fault:  # noqa: BLE001 - passed on to the caller
            if len(batch) == 1:
                _tell(batch[0], fault)
                return
            for one in batch:
                await self._settle([one])
        else:
            for one, verdict in zip(batch, applied.verdicts, strict=True):
                if not one.verdict.done():
                    one.verdict.set_result(verdict)
            self._told(applied.entries, forgot=_forgot(batch, applied.verdicts))


def _forgot(batch: list[_Waiting], verdicts: list[CommitResult]) -> bool:
    return any(
        isinstance(write, JobDeletion)
        for one, verdict in zip(batch, verdicts, strict=True)
        for write in one.writes
        if isinstance(verdict, Stored)
    )


def _tell(one: _Waiting, fault: BaseException) -> None:
    if not one.verdict.done():
        one.verdict.set_exception(fault)
