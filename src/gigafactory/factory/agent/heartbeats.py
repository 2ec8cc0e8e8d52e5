"""Heartbeats: what this machine has and runs, as often as the coordinator asks for."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from gigafactory.client import workers
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import Invalid, NotFound, Refused, Unauthenticated
from gigafactory.wire.fleet import Command

EVERY_S = 15.0
RETRY_S = 3.0
RENEW_EVERY_S = 20.0

log = structlog.get_logger()


class Heartbeats:
    """Says that the factory is there, and hears what it must do."""

    def __init__(
        self, client: AsyncClient, describe: Callable[[], Awaitable[dict[str, Any]]]
    ) -> None:
        """`describe` gives the whole heartbeat as it is now."""
        self._client = client
        self._describe = describe
        self._now = asyncio.Event()
        self.renew_every_s = RENEW_EVERY_S
        self.joined = asyncio.Event()
        """Set from the first heartbeat on that was heard."""
        self.disconnected = True
        """Whether the last one was not."""

    def send_soon(self) -> None:
        """Say it at once: something has changed."""
        self._now.set()

    async def send_first(self) -> None:
        """Join the fleet, and hear how often it wants leases to be renewed.

        Raises Refused.
        """
        heard = await self._client.send(workers.heartbeat(await self._describe()))
        self.renew_every_s = heard.settings.renew_sec
        self.disconnected = False
        self.joined.set()

    async def run(self, execute: Callable[[Sequence[Command]], None]) -> None:
        """Go on for ever; `obey` gets all that the factory is told at a time.

        Raises what no later heartbeat can mend: Unauthenticated, NotFound, Invalid.
        """
        while True:
            pause = RETRY_S
            self._now.clear()
            try:
                heard = await self._client.send(workers.heartbeat(await self._describe()))
                self.disconnected = False
                execute(heard.commands)
                pause = heard.settings.heartbeat_sec
            except (Unauthenticated, NotFound, Invalid):
                raise
            except Refused as refused:
                self.disconnected = True
                log.warning("heartbeat not heard", reason=refused.detail)
            try:
                async with asyncio.timeout(pause):
                    await self._now.wait()
            except TimeoutError:
                pass
