"""Waiting for a condition, never for a time."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg

BLOCKED_BY_ME = """
SELECT EXISTS (
    SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
)
"""


LOOK_EVERY_S = 0.01


async def until(look: Callable[[], bool | Awaitable[bool]], *, within_s: float = 60.0) -> None:
    """Come back when it is so.

    Raises TimeoutError when that takes too long.
    """
    async with asyncio.timeout(within_s):
        while True:
            seen = look()
            if seen if isinstance(seen, bool) else await seen:
                return
            await asyncio.sleep(LOOK_EVERY_S)


async def until_a_query_waits_for(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Come back when another session waits for a lock that this one holds."""
    while not await connection.fetchval(BLOCKED_BY_ME):
        pass
