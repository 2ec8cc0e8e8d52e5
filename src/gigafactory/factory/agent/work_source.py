"""Where work comes from: pushed over a stream, else asked for when the queue has moved."""

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
from gigafactory.wire.workers import GrantView


class PollIntervals(NamedTuple):
    """How often a factory that asks for work does what."""

    poll_s: float = 5.0
    forced_poll_s: float = 30.0
    """It asks although the queue has not moved: by time alone, jobs become due."""
    stream_retry_s: float = 30.0
    """One that has fallen back tries the stream again."""


DEFAULT_INTERVALS = PollIntervals()

log = structlog.get_logger()


class DeliveryMode(StrEnum):
    """The ways to receive work, the best first."""

    STREAM = "stream"
    GATE = "gate"
    POLL = "poll"


class OfferMessage(msgspec.Struct, frozen=True, rename="camel"):
    """What an offer says; the job itself comes with its acceptance."""

    offer_id: str
    job_id: str
    engine: str | None = None


WorkItem = GrantView | Command


class WorkSource:
    """Yields grants and commands; falls back when its way is blocked, and comes back by itself."""

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
        """`has_room` tells whether a run with this engine (None: with any) could start now."""
        self._client = client
        self._factory_id = factory_id
        self._instance_id = instance_id
        self._mode = mode
        self._can_start = can_start
        self._intervals = intervals
        self._empty_version: int | None = None
        """Of the queue, when there was nothing in it for us."""
        self._claimed_at = 0.0
        self._streaming = False
        """Whether a stream is open."""
        self.polling_requested = asyncio.Event()
        """Set while the coordinator wants to be asked for work although offers come."""
        self.capacity_freed = asyncio.Event()
        """Rung when a run has ended: there may be room again."""

    async def receive(self) -> AsyncIterator[WorkItem]:
        """Everything that there is to do, for ever.

        Raises Unauthenticated when the factory's token has ended.
        """
        while True:
            if self._mode is DeliveryMode.STREAM:
                async for each in self._receive_stream():
                    yield each
            async for each in self._poll():
                yield each

    async def poll_alongside_stream(self) -> AsyncIterator[WorkItem]:
        """What is asked for beside a stream, while the coordinator wants that; for ever.

        Raises Unauthenticated.
        """
        while True:
            await self.polling_requested.wait()
            if self._streaming and self._can_start(None) and (grant := await self._claim()):
                yield grant
                continue
            await self._pause()

    async def _receive_stream(self) -> AsyncIterator[WorkItem]:
        """Until the stream cannot be had any more."""
        try:
            self._streaming = True
            async for sent in self._client.follow(workers.offers(self._factory_id)):
                if sent.event == "command":
                    yield msgspec.json.decode(sent.data, type=Command)
                elif sent.event == "offer":
                    offered = msgspec.json.decode(sent.data, type=OfferMessage)
                    if (grant := await self._accept(offered)) is not None:
                        yield grant
        except Unauthenticated:
            raise
        except Refused as refused:
            log.warning("offers do not come; asking for work", reason=refused.detail)
        finally:
            self._streaming = False

    async def _accept(self, offered: OfferMessage) -> GrantView | None:
        if not self._can_start(offered.engine):
            await self._decline(offered)
            return None
        call = workers.accept(
            self._factory_id, offered.job_id, offered.offer_id, instance_id=self._instance_id
        )
        try:
            return await self._client.send(call)
        except (Conflict, Halted) as gone:
            log.info("offer gone", job=offered.job_id, reason=gone.detail)
            return None

    async def _decline(self, offered: OfferMessage) -> None:
        call = workers.decline(
            self._factory_id, offered.job_id, offered.offer_id, reason="there is no room just now"
        )
        try:
            await self._client.send(call)
        except Conflict as gone:
            log.info("offer gone", job=offered.job_id, reason=gone.detail)

    async def _poll(self) -> AsyncIterator[WorkItem]:
        """Ask at an interval; for a while only, where a stream would be better."""
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
                # With nothing for us in this version, the next look waits for another one.
                self._empty_version = version if grant is None else None
                return grant
            return await self._client.send(
                workers.claim(self._factory_id, instance_id=self._instance_id)
            )
        except Unauthenticated:
            raise
        except (Unavailable, Refused) as away:
            log.warning("no answer to a claim", reason=away.detail)
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
