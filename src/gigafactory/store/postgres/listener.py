"""Listen for commits of other coordinators on a separate connection."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog

from gigafactory.domain.errors import Unavailable
from gigafactory.store.postgres.connection import Database
from gigafactory.store.postgres.queries import SQL
from gigafactory.system.loops import run_every

RETRY_S = 0.5
CHECK_EVERY_S = 5.0
CHECK_MAX_S = 5.0
"""A connection that does not answer within this time is replaced."""

log = structlog.get_logger()


class Listener:
    """Reports the position of the feed after every commit, from database notifications."""

    def __init__(self, database: Database, on_position: Callable[[int, int], None]) -> None:
        """Call `on_position` with the backend process that committed and the new position."""
        self._database = database
        self._on_position = on_position

    async def run(self) -> None:
        """Listen until cancelled; reconnect after every failure."""
        await run_every(RETRY_S, self._listen_once, name="listener")

    async def _listen_once(self) -> None:
        try:
            with self._database.map_db_errors():
                await self._listen()
        except Unavailable as away:
            log.warning("not listening to other coordinators; polling", reason=away.detail)

    async def _listen(self) -> None:
        connection = await self._database.connect()
        lost = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(self._database.schema, self._on_notification)
            while not lost.is_set():
                # First catch up with earlier commits; later calls check the connection.
                position = await connection.fetchval(SQL["position"], timeout=CHECK_MAX_S)
                self._on_position(connection.get_server_pid(), position)
                with suppress(TimeoutError):
                    async with asyncio.timeout(CHECK_EVERY_S):
                        await lost.wait()
        finally:
            connection.terminate()

    def _on_notification(self, _: object, backend: int, _channel: str, payload: object) -> None:
        self._on_position(backend, int(str(payload)))
