"""Reader connections beside the writer, one per thread."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from gigafactory.domain.errors import Unavailable
from gigafactory.store.sqlite.connection import READER_CACHE_KIB, connect, map_db_errors

T = TypeVar("T")


class SqliteReaders:
    """Runs reads in threads; a read sees all commits before its start."""

    def __init__(self, path: Path, threads_max: int) -> None:
        self._path = path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(threads_max, thread_name_prefix="sqlite-reader")
        self._closed = False

    async def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query function in a thread, on the newest committed state.

        Raises Unavailable.
        """
        self.require_open()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._read, query)

    def read_inline(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query function at once: a thread would take longer for few rows.

        Raises Unavailable.
        """
        self.require_open()
        return self._read(query)

    def require_open(self) -> None:
        """Check that the store is open.

        Raises Unavailable.
        """
        if self._closed:
            raise Unavailable(f"the store {self._path} is closed; restart the coordinator")

    def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        with map_db_errors(self._path):
            return query(self._connection())

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._path, cache_kib=READER_CACHE_KIB)
            connection.execute("PRAGMA query_only = ON")
            self._connections.append(connection)
        return connection

    def close(self) -> None:
        """Finish the requested reads, and close the connections."""
        self._closed = True
        self._threads.shutdown()
        for connection in self._connections:
            connection.close()
