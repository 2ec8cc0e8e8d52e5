"""The thread that commits: it waits for the disk, so that the event loop need not."""

import asyncio
import sqlite3
import threading
from queue import SimpleQueue


class SyncThread:
    """Ends the transactions of one connection, one after the other.

    A pool would do the same; with one thread and one caller a commit is some tens of microseconds
    sooner there and back.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Begin to wait for transactions of this connection."""
        self._connection = connection
        self._asked: SimpleQueue[asyncio.Future[None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="sqlite-sync", daemon=True)
        self._thread.start()

    def commit(self) -> asyncio.Future[None]:
        """Done when all that the open transaction wrote is on the disk, or none of it is kept.

        Until then the connection is the thread's, also when nobody waits any more.
        """
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked.put(kept)
        return kept

    def close(self) -> None:
        """Finish what was asked for, and end."""
        self._asked.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (kept := self._asked.get()) is not None:
            tell = kept.get_loop().call_soon_threadsafe
            try:
                _commit(self._connection)
            except BaseException as fault:  # noqa: BLE001 - told to whoever asked
                tell(_fail, kept, fault)
            else:
                tell(_settle, kept)


def _commit(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _settle(kept: asyncio.Future[None]) -> None:
    if not kept.done():
        kept.set_result(None)


def _fail(kept: asyncio.Future[None], fault: BaseException) -> None:
    if not kept.done():
        kept.set_exception(fault)
