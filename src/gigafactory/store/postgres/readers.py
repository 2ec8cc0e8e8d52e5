"""Reader connections; a lost one is replaced."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

import asyncpg

from gigafactory.domain.errors import Unavailable
from gigafactory.store.postgres.connection import Connection, Database, is_unavailable

K = TypeVar("K")
V = TypeVar("V")


class CoalescedReads(Generic[K, V]):
    """Coalesces reads of the same turn of the event loop into one query.

    No read joins a query that is under way: it might miss what was stored before the read.
    """

    def __init__(self, fetch: Callable[[list[K]], Awaitable[Mapping[K, V]]]) -> None:
        """Ask by this, for the keys that were gathered."""
        self._fetch = fetch
        self._next: tuple[dict[K, None], asyncio.Task[Mapping[K, V]]] | None = None

    async def get(self, key: K) -> V | None:
        """What is stored under a key; None without it.

        Raises Unavailable.
        """
        if self._next is None:
            keys: dict[K, None] = {}
            self._next = (keys, asyncio.create_task(self._fetch_keys(keys), name="gathered-reads"))
        keys, found = self._next
        keys[key] = None
        # Whoever leaves must not take the answer from the others.
        return (await asyncio.shield(found)).get(key)

    async def _fetch_keys(self, keys: dict[K, None]) -> Mapping[K, V]:
        self._next = None
        return await self._fetch(list(keys))


UNSENDABLE = {asyncpg.DataError, asyncpg.CharacterNotInRepertoireError}
"""What driver and server say of a value that no column can hold, such as a text with NUL in it."""


class PostgresReaders:
    """Answers queries, so many at a time; each sees all that was committed before it began."""

    def __init__(self, database: Database, connections_max: int, **settings: str) -> None:
        """Connect when there is something to ask."""
        self._database = database
        self._settings = settings
        self._turn = asyncio.Semaphore(connections_max)
        self._idle: list[Connection] = []
        self._closed = False

    async def fetch(self, query: str, *values: object) -> list[asyncpg.Record]:
        """The rows of a query; none for a value that no column can hold.

        Raises Unavailable.
        """
        async with self._turn:
            if self._closed:
                message = f"the store at {self._database} is closed; start the coordinator again"
                raise Unavailable(message)
            with self._database.map_db_errors():
                while self._idle:
                    known = self._idle.pop()
                    if known.is_closed():
                        continue
                    try:
                        return await self._fetch(known, query, values)
                    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as fault:
                        # It may have been lost while it was idle, so a new one is worth a try.
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
        answered = False
        try:
            found = await connection.fetch(query, *values)
            answered = True
        except asyncpg.DataError as fault:
            answered = True
            if type(fault) not in UNSENDABLE:
                raise
            return []
        else:
            return found
        finally:
            if answered and not self._closed:
                self._idle.append(connection)
            else:
                # A cancelled query leaves an unread answer on the connection: drop both.
                connection.terminate()

    async def close(self) -> None:
        """Close the connections; queries under way are still answered."""
        self._closed = True
        for connection in self._idle:
            connection.terminate()
        self._idle.clear()
