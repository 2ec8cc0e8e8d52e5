"""Source of work: offers pushed over a stream, or claims when the queue version changes."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from typing import NamedTuple

import msgspec
import structlog

from gigafactory.client import fleet, workers
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import Conflict, Halted, Refused, Unauthenticated, Unavailable
from gigafactory.wire.fleet import Command
from gigafactory.wire.workers import GrantView, OfferView


class PollIntervals(NamedTuple):
    """Intervals of polling."""

    poll_s: float = 5.0
    forced_poll_s: float = 30.0
    """Claim even if the queue version is unchanged: jobs can become due by time alone."""
    stream_retry_s: float = 30.0
    """How long to poll before trying the stream again."""


DEFAULT_INTERVALS = PollIntervals()

log = structlog.get_logger()


class DeliveryMode(StrEnum):
    """How a factory receives work, best first."""

    STREAM = "stream"
    GATE = "gate"
    POLL = "poll"


WorkItem = GrantView | Command


class WorkSource:
    """Yields grants and commands; polls while the offer stream fails."""

    def __init__(
        self,
        client: AsyncClient,
        factory_id: str,
        instance_id: str,
        *,
        mode: DeliveryMode,
        can_start: Callable[[str | None], bool],
        intervals: PollIntervals = DEFAULT_INTERVALS,
    ) -> None:
        """`can_start` returns whether a run with this engine (None: any engine) could start now."""
        self._client = client
        self._factory_id = factory_id
        self._instance_id = instance_id
        self._mode = mode
        self._can_start = can_start
        self._intervals = intervals
        self._empty_version: int | None = None
        """Version of the queue that had no work for this factory."""
        self._claimed_at = 0.0
        self._streaming = False
        """Whether the offer stream is open."""
        self.polling_requested = asyncio.Event()
        """Set while the coordinator wants this factory to poll in addition to receiving offers."""
        self.capacity_freed = asyncio.Event()
        """Set when a run has ended: there may be capacity again."""

    async def receive(self) -> AsyncIterator[WorkItem]:
        """Yield all grants and commands, forever.

        Raises Unauthenticated when the factory's token is no longer valid.
        """
        while True:
            if self._mode is DeliveryMode.STREAM:
                async for each in self._receive_stream():
                    yield each
            async for each in self._poll():
                yield each

    async def poll_alongside_stream(self) -> AsyncIterator[WorkItem]:
        """Yield claims made while the stream is open, on request of the coordinator, forever.

        Raises Unauthenticated.
        """
        while True:
            await self.polling_requested.wait()
            if self._streaming and self._can_start(None) and (grant := await self._claim()):
                yield grant
                continue
            await self._pause()

    async def _receive_stream(self) -> AsyncIterator[WorkItem]:
        """Yield from the stream until it fails."""
        try:
            self._streaming = True
            async for sent in self._client.follow(workers.offers(self._factory_id)):
                if sent.event == Command.event:
                    yield msgspec.json.decode(sent.data, type=Command)
                elif sent.event == OfferView.event:
                    offer = msgspec.json.decode(sent.data, type=OfferView)
                    if (grant := await self._accept(offer)) is not None:
                        yield grant
        except Unauthenticated:
            raise
        except Refused as refused:
            log.warning("offer stream failed; polling for work", reason=refused.detail)
        finally:
            self._streaming = False

    async def _accept(self, offer: OfferView) -> GrantView | None:
        if not self._can_start(offer.engine):
            await self._decline(offer)
            return None
        call = workers.accept(
            self._factory_id, offer.job_id, offer.offer_id, instance_id=self._instance_id
        )
        try:
            return await self._client.send(call)
        except (Conflict, Halted) as refused:
            log.info("offer gone", job=offer.job_id, reason=refused.detail)
            return None

    async def _decline(self, offer: OfferView) -> None:
        call = workers.decline(
            self._factory_id, offer.job_id, offer.offer_id, reason="no free capacity"
        )
        try:
            await self._client.send(call)
        except Conflict as refused:
            log.info("offer gone", job=offer.job_id, reason=refused.detail)

    async def _poll(self) -> AsyncIterator[WorkItem]:
        """Yield claimed grants; in stream mode, return after a while to try the stream again."""
        until = time.monotonic() + self._intervals.stream_retry_s
        while self._mode is not DeliveryMode.STREAM or time.monotonic() < until:
            if self._can_start(None) and (grant := await self._claim()) is not None:
                yield grant
                continue
            await self._pause()

    async def _claim(self) -> GrantView | None:
        try:
            if self._mode is not DeliveryMode.POLL:
                version = (await self._client.send(fleet.queue_state())).version
                if version == self._empty_version and not self._is_due():
                    return None
                self._claimed_at = time.monotonic()
                grant = await self._client.send(
                    workers.claim(self._factory_id, instance_id=self._instance_id)
                )
                # This version has no work for us: the next claim waits for another version.
                self._empty_version = version if grant is None else None
                return grant
            return await self._client.send(
                workers.claim(self._factory_id, instance_id=self._instance_id)
            )
        except Unauthenticated:
            raise
        except (Unavailable, Refused) as error:
            log.warning("claim failed", reason=error.detail)
            return None

    def _is_due(self) -> bool:
        return time.monotonic() - self._claimed_at >= self._intervals.forced_poll_s

    async def _pause(self) -> None:
        self.capacity_freed.clear()
        try:
            async with asyncio.timeout(self._intervals.poll_s):
                await self.capacity_freed.wait()
        except TimeoutError:
            return
        self._empty_version = None
