"""A few connections that read beside the writer, each in a thread of its own."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from gigafactory.domain.errors import Unavailable
from gigafactory.store.sqlite.connection import READER_CACHE_KIB, connect, told

T = TypeVar("T")

READERS = 4


class Readers:
    """Answers questions in threads; each begins after all that was committed before it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="sqlite-reader")
        self._closed = False

    async def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """The answer that this question finds in the newest committed state.

        Raises Unavailable.
        """
        if self._closed:
            raise Unavailable(f"the store {self._path} is closed; start the coordinator again")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._answer, question)

    def _answer(self, question: Callable[[sqlite3.Connection], T]) -> T:
        with told(self._path):
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
