"""Waiting for a condition of a database, never for a time."""

import asyncpg

BLOCKED_BY_ME = """
SELECT EXISTS (
    SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
)
"""


async def until_somebody_waits_for(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Come back when another session waits for a lock that this one holds."""
    while not await connection.fetchval(BLOCKED_BY_ME):
        pass
