"""Event streams: each follower only keeps a feed position, so memory use is constant."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Literal

import msgspec

from gigafactory.coordinator.access.tokens import Tokens
from gigafactory.coordinator.core.audit import readable_logs
from gigafactory.coordinator.core.ports import PAGE_MAX, Store
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FLEET, FeedEntry
from gigafactory.domain.job.job import Event
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, ROLES_BY_VERB, Caller

BEHIND_MAX = 10_000
"""A follower that falls behind by more events since it last woke is dropped."""
LOOK_AGAIN_S = 5.0
"""Tokens expire without an event: they are rechecked this often."""


class EventBatch(msgspec.Struct, frozen=True):
    """Events in order; `ended` is the reason why the stream ends."""

    events: Sequence[Event] = ()
    ended: Literal["dropped", "revoked"] | None = None


class EventStreams:
    """Streams the events of a job or of products."""

    def __init__(
        self,
        store: Store,
        index: Index,
        jobs: JobQueries,
        tokens: Tokens,
        *,
        behind_max: int = BEHIND_MAX,
    ) -> None:
        self._behind_max = behind_max
        self._store = store
        self._index = index
        self._jobs = jobs
        self._tokens = tokens

    async def follow_job(
        self, caller: Caller, reference: str, *, after: int = 0
    ) -> AsyncIterator[EventBatch]:
        """Stream a job's events after a sequence number, each once and in order.

        Raises NotFound immediately.
        """
        job = await self._jobs.lookup(caller, reference)
        return self._job_batches(caller, job.id, after)

    async def _job_batches(
        self, caller: Caller, job_id: str, seq: int
    ) -> AsyncIterator[EventBatch]:
        # Take the feed position before reading the events, so that none is missed in between.
        position = await self._store.position()
        while events := await self._store.events(job_id, after=seq):
            seq = events[-1].seq
            yield EventBatch(events)
            if len(events) < PAGE_MAX:
                break
        async for entries in self._feed(caller, position):
            if not isinstance(entries, list):
                yield EventBatch(ended=entries)
                return
            events = [e.event for e in entries if e.event.job_id == job_id and e.event.seq > seq]
            if events:
                seq = events[-1].seq
                yield EventBatch(events)

    async def follow_product(
        self, caller: Caller, *, after: int | None = None
    ) -> AsyncIterator[EventBatch]:
        """Stream all events that the caller may see after a position, by default from now on.

        Raises Forbidden for a factory.
        """
        caller.require("read", OWN_PRODUCTS)
        newest = await self._store.position()
        # A store that lost history may be behind what the follower has seen.
        position = newest if after is None else min(after, newest)
        return self._product_batches(caller, position)

    async def _product_batches(self, caller: Caller, position: int) -> AsyncIterator[EventBatch]:
        logs = readable_logs(caller)
        async for entries in self._feed(caller, position):
            if not isinstance(entries, list):
                yield EventBatch(ended=entries)
                return
            visible = [e.event for e in entries if _is_visible(e.event, caller, logs)]
            if visible:
                yield EventBatch(visible)

    async def _feed(
        self, caller: Caller, position: int
    ) -> AsyncIterator[list[FeedEntry] | Literal["dropped", "revoked"]]:
        woken_at: int | None = None
        rollbacks = self._index.rollbacks
        while await self._tokens.is_valid(caller):
            if self._index.rollbacks != rollbacks:
                rollbacks, position = self._index.rollbacks, min(position, self._index.position)
            # No await between this check and the wait, so that no wake-up is missed.
            if self._index.position <= position:
                await self._wait_for_news(caller)
                woken_at = self._index.position
            elif woken_at is not None and self._index.position - woken_at > self._behind_max:
                yield "dropped"
                return
            elif entries := list(await self._store.feed(after=position)):
                position = entries[-1].event.position
                yield entries
        yield "revoked"

    async def _wait_for_news(self, caller: Caller) -> None:
        if caller.token is None or caller.token.expires_at is None:
            # Everything else that ends it is an event; a timer per follower would be expensive.
            await self._index.wait_for_update()
            return
        try:
            async with asyncio.timeout(LOOK_AGAIN_S):
                await self._index.wait_for_update()
        except TimeoutError:
            return


def _is_visible(event: Event, caller: Caller, logs: tuple[str, ...] | None) -> bool:
    """Whether an event is in these logs; of the fleet's, a halt concerns everybody."""
    if event.product_id == FLEET:
        halts = event.type in {event_types.HALTED, event_types.RESUMED}
        return halts or caller.reads_fleet_log
    if event.type in event_types.ACCESS_EVENTS and caller.role not in ROLES_BY_VERB["audit"]:
        return False
    return logs is None or event.product_id in logs
