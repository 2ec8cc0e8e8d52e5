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
from gigafactory.wire.answers import Command, Grant


class Pace(NamedTuple):
    """How often a factory that asks for work does what."""

    ask_s: float = 5.0
    anyway_s: float = 30.0
    """It asks although the queue has not moved: by time alone, jobs become due."""
    better_s: float = 30.0
    """One that has fallen back tries the stream again."""


USUAL = Pace()

log = structlog.get_logger()


class Mode(StrEnum):
    """The ways to receive work, the best first."""

    STREAM = "stream"
    GATE = "gate"
    POLL = "poll"


class Offered(msgspec.Struct, frozen=True, rename="camel"):
    """What an offer says; the job itself comes with its acceptance."""

    offer_id: str
    job_id: str
    engine: str | None = None


Work = Grant | Command


class WorkSource:
    """Yields grants and commands; falls back when its way is blocked, and comes back by itself."""

    def __init__(
        self,
        client: AsyncClient,
        factory_id: str,
        instance_id: str,
        *,
        mode: Mode,
        has_room: Callable[[str | None], bool],
        pace: Pace = USUAL,
    ) -> None:
        """`has_room` tells whether a run with this engine (None: with any) could start now."""
        self._client = client
        self._factory_id = factory_id
        self._instance_id = instance_id
        self._mode = mode
        self._has_room = has_room
        self._pace = pace
        self._version: int | None = None
        """Of the queue, when there was nothing in it for us."""
        self._asked_at = 0.0
        self._listening = False
        """Whether a stream is open."""
        self.to_ask = asyncio.Event()
        """Set while the coordinator wants to be asked for work although offers come."""
        self.room = asyncio.Event()
        """Rung when a run has ended: there may be room again."""

    async def work(self) -> AsyncIterator[Work]:
        """Everything that there is to do, for ever.

        Raises Unauthenticated when the factory's token has ended.
        """
        while True:
            if self._mode is Mode.STREAM:
                async for each in self._streamed():
                    yield each
            async for each in self._asked():
                yield each

    async def beside(self) -> AsyncIterator[Work]:
        """What is asked for beside a stream, while the coordinator wants that; for ever.

        Raises Unauthenticated.
        """
        while True:
            await self.to_ask.wait()
            if self._listening and self._has_room(None) and (grant := await self._claim()):
                yield grant
                continue
            await self._pause()

    async def _streamed(self) -> AsyncIterator[Work]:
        """Until the stream cannot be had any more."""
        try:
            self._listening = True
            async for sent in self._client.follow(workers.offers(self._factory_id)):
                if sent.event == "command":
                    yield msgspec.json.decode(sent.data, type=Command)
                elif sent.event == "offer":
                    offered = msgspec.json.decode(sent.data, type=Offered)
                    if (grant := await self._accept(offered)) is not None:
                        yield grant
        except Unauthenticated:
            raise
        except Refused as refused:
            log.warning("offers do not come; asking for work", reason=refused.detail)
        finally:
            self._listening = False

    async def _accept(self, offered: Offered) -> Grant | None:
        if not self._has_room(offered.engine):
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

    async def _decline(self, offered: Offered) -> None:
        call = workers.decline(
            self._factory_id, offered.job_id, offered.offer_id, reason="there is no room just now"
        )
        try:
            await self._client.send(call)
        except Conflict as gone:
            log.info("offer gone", job=offered.job_id, reason=gone.detail)

    async def _asked(self) -> AsyncIterator[Work]:
        """Ask at an interval; for a while only, where a stream would be better."""
        until = time.monotonic() + self._pace.better_s
        while self._mode is not Mode.STREAM or time.monotonic() < until:
            if self._has_room(None) and (grant := await self._claim()) is not None:
                yield grant
                continue
            await self._pause()

    async def _claim(self) -> Grant | None:
        try:
            if self._mode is not Mode.POLL:
                version = (await self._client.send(fleet.queue_state())).version
                if version == self._version and not self._is_due():
                    return None
                self._asked_at = time.monotonic()
                grant = await self._client.send(
                    workers.claim(self._factory_id, instance_id=self._instance_id)
                )
                # With nothing for us in this version, the next look waits for another one.
                self._version = version if grant is None else None
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
        return time.monotonic() - self._asked_at >= self._pace.anyway_s

    async def _pause(self) -> None:
        self.room.clear()
        try:
            async with asyncio.timeout(self._pace.ask_s):
                await self.room.wait()
        except TimeoutError:
            return
        self._version = None
