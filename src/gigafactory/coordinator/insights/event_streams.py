"""Following what happens: each follower keeps one number, and memory never grows with it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Literal

import msgspec

from gigafactory.coordinator.access.tokens import Tokens
from gigafactory.coordinator.core.audit import visible_products
from gigafactory.coordinator.core.ports import PAGE_MAX, Store
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.domain.job.change import FLEET, FeedEntry
from gigafactory.domain.job.job import Event
from gigafactory.domain.tenancy.access import ROLES_BY_VERB, Caller

BEHIND_MAX = 10_000
"""A follower that was up to date, and since then has let so much come in, is let go."""
LOOK_AGAIN_S = 5.0
"""A token that expires tells nobody: it is looked at so often."""


class EventBatch(msgspec.Struct, frozen=True):
    """Events in their order; `ended` says why there will be no more."""

    events: Sequence[Event] = ()
    ended: Literal["dropped", "revoked"] | None = None


class EventStreams:
    """The verbs by which somebody follows a job or a product."""

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
        """A job's events above a seq, each once and in order, and then as they come.

        Raises NotFound at once.
        """
        job = await self._jobs.lookup(caller, reference)
        return self._job_batches(caller, job.id, after)

    async def _job_batches(
        self, caller: Caller, job_id: str, seq: int
    ) -> AsyncIterator[EventBatch]:
        # The feed is followed from before the story was read: nothing can fall in between.
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
        """All events that the caller may see above a position (by default: from now on)."""
        position = await self._store.position() if after is None else after
        return self._product_batches(caller, position)

    async def _product_batches(self, caller: Caller, position: int) -> AsyncIterator[EventBatch]:
        products = visible_products(caller)
        if caller.role in ROLES_BY_VERB["audit"] and products is not None:
            products = (*products, FLEET)
        async for entries in self._feed(caller, position):
            if not isinstance(entries, list):
                yield EventBatch(ended=entries)
                return
            told = [e.event for e in entries if products is None or e.event.product_id in products]
            if told:
                yield EventBatch(told)

    async def _feed(
        self, caller: Caller, position: int
    ) -> AsyncIterator[list[FeedEntry] | Literal["dropped", "revoked"]]:
        woken_at: int | None = None
        while await self._tokens.is_valid(caller):
            # No await between this look and the wait: what comes in then rings for this follower.
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
            # Whatever else ends it is an event: with a thousand followers a clock each is felt.
            await self._index.wait_for_update()
            return
        try:
            async with asyncio.timeout(LOOK_AGAIN_S):
                await self._index.wait_for_update()
        except TimeoutError:
            return
