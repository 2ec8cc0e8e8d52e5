"""Waiting for conditions, never for a time."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg

BLOCKED_BY_ME = """
SELECT EXISTS (
    SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
)
"""


CHECK_EVERY_S = 0.01


async def until(condition: Callable[[], bool | Awaitable[bool]], *, within_s: float = 60.0) -> None:
    """Wait until a condition holds.

    Raises TimeoutError when that takes too long.
    """
    async with asyncio.timeout(within_s):
        while True:
            result = condition()
            if result if isinstance(result, bool) else await result:
                return
            await asyncio.sleep(CHECK_EVERY_S)


async def until_a_query_waits_for(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Wait until another session waits for a lock that this one holds."""
    while not await connection.fetchval(BLOCKED_BY_ME):
        pass
