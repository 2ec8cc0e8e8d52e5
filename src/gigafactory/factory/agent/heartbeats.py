"""Heartbeats: report the state of this machine to the coordinator at its interval."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from gigafactory.client import workers
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import Invalid, NotFound, Refused, TwinFactory, Unauthenticated
from gigafactory.wire.fleet import Command, HeartbeatDoc

EVERY_S = 15.0
RETRY_S = 3.0
RENEW_EVERY_S = 20.0

log = structlog.get_logger()


class Heartbeats:
    """Sends heartbeats and receives commands of the coordinator."""

    def __init__(
        self, client: AsyncClient, describe: Callable[[], Awaitable[HeartbeatDoc]]
    ) -> None:
        """`describe` returns the current heartbeat document."""
        self._client = client
        self._describe = describe
        self._now = asyncio.Event()
        self.renew_every_s = RENEW_EVERY_S
        self.joined = asyncio.Event()
        """Set after the first heartbeat that the coordinator accepted."""
        self.disconnected = True
        """Whether the last heartbeat failed."""

    def send_soon(self) -> None:
        """Send the next heartbeat now: something has changed."""
        self._now.set()

    async def send_first(self) -> None:
        """Join the fleet, and read the interval of lease renewals.

        Raises Refused.
        """
        response = await self._client.send(workers.heartbeat(await self._describe()))
        self.renew_every_s = response.settings.renew_sec
        self.disconnected = False
        self.joined.set()

    async def run(self, execute: Callable[[Sequence[Command]], None]) -> None:
        """Send heartbeats forever; pass the commands of each response to `execute`.

        Raises Unauthenticated, NotFound, Invalid and TwinFactory: a later heartbeat cannot repair
        them.
        """
        while True:
            pause = RETRY_S
            self._now.clear()
            try:
                response = await self._client.send(workers.heartbeat(await self._describe()))
                self.disconnected = False
                execute(response.commands)
                pause = response.settings.heartbeat_sec
            except (Unauthenticated, NotFound, Invalid, TwinFactory):
                raise
            except Refused as refused:
                self.disconnected = True
                log.warning("heartbeat failed", reason=refused.detail)
            try:
                async with asyncio.timeout(pause):
                    await self._now.wait()
            except TimeoutError:
                pass
