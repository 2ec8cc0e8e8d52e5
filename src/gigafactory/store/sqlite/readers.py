"""A few connections that read beside the writer, one a thread."""

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
    """Answers questions in threads; each begins after all that was committed before it."""

    def __init__(self, path: Path, threads_max: int) -> None:
        """Ask at most so many questions at once."""
        self._path = path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(threads_max, thread_name_prefix="sqlite-reader")
        self._closed = False

    async def read(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """The answer that this question finds in the newest committed state.

        Raises Unavailable.
        """
        self.require_open()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._read, question)

    def read_inline(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """The answer to a question that is sooner answered than handed to a thread.

        Raises Unavailable.
        """
        self.require_open()
        return self._read(question)

    def require_open(self) -> None:
        """Refuse what is asked of a store that is closed.

        Raises Unavailable.
        """
        if self._closed:
            raise Unavailable(f"the store {self._path} is closed; start the coordinator again")

    def _read(self, question: Callable[[sqlite3.Connection], T]) -> T:
        with map_db_errors(self._path):
            return question(self._connection())

    def _connection(self) -> sqlite3.Connection:
        """The connection of the thread that asks."""
        known: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if known is None:
            known = self._local.connection = connect(self._path, cache_kib=READER_CACHE_KIB)
            known.execute("PRAGMA query_only = ON")
            self._connections.append(known)
        return known

    def close(self) -> None:
        """Answer what was asked, and close the connections."""
        self._closed = True
        self._threads.shutdown()
        for connection in self._connections:
            connection.close()
