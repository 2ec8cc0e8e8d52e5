"""A pool of reader connections that replaces lost ones, and coalesced reads."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

import asyncpg

from gigafactory.domain.errors import Unavailable
from gigafactory.store.postgres.connection import Connection, Database, is_unavailable

K = TypeVar("K")
V = TypeVar("V")


class CoalescedReads(Generic[K, V]):
    """Combines the reads of one turn of the event loop into one query.

    A read never joins a running query, which might miss data stored just before the read.
    """

    def __init__(self, fetch: Callable[[list[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._fetch = fetch
        self._next: tuple[dict[K, None], asyncio.Task[Mapping[K, V]]] | None = None

    async def get(self, key: K) -> V | None:
        """Return the value of a key; None if it does not exist.

        Raises Unavailable.
        """
        if self._next is None:
            keys: dict[K, None] = {}
            self._next = (keys, asyncio.create_task(self._fetch_keys(keys), name="coalesced-reads"))
        keys, results = self._next
        keys[key] = None
        # A cancelled caller must not cancel the query of the others.
        return (await asyncio.shield(results)).get(key)

    async def _fetch_keys(self, keys: dict[K, None]) -> Mapping[K, V]:
        self._next = None
        return await self._fetch(list(keys))


UNSENDABLE = {asyncpg.DataError, asyncpg.CharacterNotInRepertoireError}
"""Errors for a value that no column can hold, such as text with NUL."""


class PostgresReaders:
    """A bounded pool of reader connections; a query sees all commits before its start."""

    def __init__(self, database: Database, connections_max: int, **settings: str) -> None:
        self._database = database
        self._settings = settings
        self._turn = asyncio.Semaphore(connections_max)
        self._idle: list[Connection] = []
        self._closed = False

    async def fetch(self, query: str, *values: object) -> list[asyncpg.Record]:
        """Return the rows of a query; none if a value fits no column.

        Raises Unavailable.
        """
        async with self._turn:
            if self._closed:
                message = f"the store at {self._database} is closed; restart the coordinator"
                raise Unavailable(message)
            with self._database.map_db_errors():
                while self._idle:
                    idle = self._idle.pop()
                    if idle.is_closed():
                        continue
                    try:
                        return await self._fetch(idle, query, values)
                    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as fault:
                        # The connection may have been lost while idle: try a new one.
                        if isinstance(fault, TimeoutError) or not is_unavailable(fault):
                            raise
                fresh = await self._database.connect(**self._settings)
                return await self._fetch(fresh, query, values)

    async def _fetch(
        self,
        connection: Connection,
        query: str,
        values: tuple[object, ...],
    ) -> list[asyncpg.Record]:
        finished = False
        try:
            fetched = await connection.fetch(query, *values)
            finished = True
        except asyncpg.DataError as fault:
            finished = True
            if type(fault) not in UNSENDABLE:
                raise
            return []
        else:
            return fetched
        finally:
            if finished and not self._closed:
                self._idle.append(connection)
            else:
                # A cancelled query leaves an unread response on the connection: drop both.
                connection.terminate()

    async def close(self) -> None:
        """Close the idle connections; running queries still finish."""
        self._closed = True
        for connection in self._idle:
            connection.terminate()
        self._idle.clear()
