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
STOPPED = "the store was closed before it answered; retry with the same idempotency key"

Group = tuple[Write, ...]


class BatchResult(NamedTuple):
    """The verdict on each group of a batch, and the feed entries of the stored groups."""

    verdicts: list[CommitResult]
    entries: Sequence[FeedEntry] = ()


Apply = Callable[[list[Group]], Awaitable[BatchResult]]


class OnCommitted(Protocol):
    """Callback for a committed batch: its feed entries, and whether it deleted a job."""

    def __call__(self, entries: Sequence[FeedEntry], *, job_deleted: bool) -> None:
        """Handle a committed batch."""


class Footprint(NamedTuple):
    """The keys that a group writes and the keys that it only reads; `all_` means every key."""

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
                # Last-seen times only move forward, so their order does not matter.
                continue
        if isinstance(write, JobChange | RecordChange):
            read.update(map(_guard_key, write.guards))
    return Footprint(frozenset(written), frozenset(read - written))


def _guard_key(guard: Guard) -> str:
    return (
        f"job/{guard.job_id}"
        if isinstance(guard, LeaseExpiredGuard)
        else f"{guard.kind}/{guard.key}"
    )


class _Waiting(NamedTuple):
    writes: Group
    footprint: Footprint
    verdict: asyncio.Future[CommitResult]


class GroupCommit:
    """Collects groups of writes into batches and commits one batch at a time, in arrival order.

    `apply` writes a batch in one transaction and returns a verdict for each group. If it raises
    Unavailable, the outcome is unknown and every caller of the batch gets the error. After any
    other error nothing was stored, and the groups are retried one by one, so that a bad group
    fails alone. `on_committed` runs after all callers have their verdicts, so that writers continue
    before followers of the feed. With `footprint_of`, groups that conflict on a key go into
    different batches, in their order.
    """

    def __init__(
        self,
        apply: Apply,
        on_committed: OnCommitted,
        *,
        footprint_of: Callable[[Group], Footprint] | None = None,
        writes_max: int = BATCH_WRITES_MAX,
    ) -> None:
        self._apply = apply
        self._on_committed = on_committed
        self._footprint_of = footprint_of
        self._writes_max = writes_max
        self._waiting: deque[_Waiting] = deque()
        self._runner: asyncio.Task[None] | None = None
        self._closed = False

    async def commit(self, writes: Group) -> CommitResult:
        """Commit a group of writes and return its verdict; cancelling does not disturb the batch.

        Raises Unavailable if the outcome is unknown, and after `close`.
        """
        if self._closed:
            raise Unavailable("the store is closed; restart the coordinator")
        verdict: asyncio.Future[CommitResult] = asyncio.get_running_loop().create_future()
        keys = self._footprint_of(writes) if self._footprint_of else Footprint()
        self._waiting.append(_Waiting(writes, keys, verdict))
        if self._runner is None:
            self._runner = asyncio.create_task(self._run(), name="group-commit")
        return await verdict

    async def close(self) -> None:
        """Accept no more writes, and wait until all accepted ones have a verdict."""
        self._closed = True
        if self._runner is not None:
            await asyncio.wait([self._runner])

    async def _run(self) -> None:
        batch: list[_Waiting] = []
        try:
            while self._waiting:
                await self._gather()
                if batch := self._next_batch():
                    await self._commit_batch(batch)
        finally:
            self._runner = None
            # Groups that remain were waiting when the event loop cancelled this task.
            for one in (*batch, *self._waiting):
                _fail(one, Unavailable(STOPPED))
            self._waiting.clear()

    async def _gather(self) -> None:
        """Let pending requests add their writes, as long as each turn of the loop adds some.

        They keep the event loop busy, so a batch that started now would have to wait anyway.
        """
        seen = 0
        while seen < len(self._waiting) and sum(len(w.writes) for w in self._waiting) < FEW_WRITES:
            seen = len(self._waiting)
            await asyncio.sleep(0)

    def _next_batch(self) -> list[_Waiting]:
        """Return the next batch in order, skipping groups that conflict with it."""
        batch: list[_Waiting] = []
        skipped: deque[_Waiting] = deque()
        written: set[str] = set()
        read: set[str] = set()
        size = 0
        while self._waiting and size + len(skipped) < self._writes_max:
            one = self._waiting.popleft()
            if one.verdict.done():
                continue
            if one.footprint.all_ and (batch or skipped):
                self._waiting.appendleft(one)
                break
            # Skipped groups block their keys too, so that the order per key is kept.
            conflict = not written.isdisjoint(one.footprint.written | one.footprint.read)
            conflict = conflict or not read.isdisjoint(one.footprint.written)
            written |= one.footprint.written
            read |= one.footprint.read
            if conflict:
                skipped.append(one)
                continue
            batch.append(one)
            size += len(one.writes)
            if one.footprint.all_:
                break
        self._waiting.extendleft(reversed(skipped))
        return batch

    async def _commit_batch(self, batch: list[_Waiting]) -> None:
        try:
            applied = await self._apply([one.writes for one in batch])
        except Unavailable as fault:
            for one in batch:
                _fail(one, Unavailable(fault.detail))
        except Exception as fault:  # noqa: BLE001 - passed on to the caller
            if len(batch) == 1:
                _fail(batch[0], fault)
                return
            for one in batch:
                await self._commit_batch([one])
        else:
            for one, verdict in zip(batch, applied.verdicts, strict=True):
                if not one.verdict.done():
                    one.verdict.set_result(verdict)
            self._on_committed(applied.entries, job_deleted=_deletes_job(batch, applied.verdicts))


def _deletes_job(batch: list[_Waiting], verdicts: list[CommitResult]) -> bool:
    return any(
        isinstance(write, JobDeletion)
        for one, verdict in zip(batch, verdicts, strict=True)
        for write in one.writes
        if isinstance(verdict, Stored)
    )


def _fail(one: _Waiting, fault: BaseException) -> None:
    if not one.verdict.done():
        one.verdict.set_exception(fault)
