"""COMMIT on the event loop while the disk is fast, in a thread while it is slow."""

import asyncio
import sqlite3
import threading
from contextlib import suppress
from queue import SimpleQueue
from time import perf_counter
from typing import NamedTuple

QUICK_S = 0.001
"""A sync that is faster than this is not worth the switch to a thread."""
NEWEST_SHARE = 0.25
"""Weight of the newest sync in the moving average: one slow sync moves some to the thread."""
CHECKPOINT_WRITES = 400
"""Writes between checkpoints, which are slow and therefore run in the thread."""


class _CommitRequest(NamedTuple):
    done: asyncio.Future[None]
    checkpoint: bool


class CommitSync:
    """Commits the transactions of one connection, one after the other."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Begin to wait for transactions of this connection."""
        self._connection = connection
        self._average_s = 0.0
        self._writes = 0
        self._requests: SimpleQueue[_CommitRequest | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="sqlite-sync", daemon=True)
        self._thread.start()

    async def commit(self, writes: int) -> None:
        """Return when all of the open transaction is on the disk; raise when none of it is kept.

        Until then the caller must not use the connection, even if it is cancelled meanwhile.
        """
        self._writes += writes
        checkpoint = self._writes >= CHECKPOINT_WRITES
        if checkpoint:
            self._writes = 0
        if checkpoint or self._average_s > QUICK_S:
            kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._requests.put(_CommitRequest(kept, checkpoint))
            await kept
        else:
            self._commit()

    def close(self) -> None:
        """Finish what was asked for, and end."""
        self._requests.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (asked := self._requests.get()) is not None:
            tell = asked.done.get_loop().call_soon_threadsafe
            try:
                self._commit()
            except BaseException as fault:  # noqa: BLE001 - passed on to the caller
                tell(_fail, asked.done, fault)
                continue
            if asked.checkpoint:
                # Nothing is lost when it fails: what is in the log stays there for the next one.
                with suppress(sqlite3.Error):
                    self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            tell(_settle, asked.done)

    def _commit(self) -> None:
        begun = perf_counter()
        try:
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._average_s += (perf_counter() - begun - self._average_s) * NEWEST_SHARE


def _settle(kept: asyncio.Future[None]) -> None:
    if not kept.done():
        kept.set_result(None)


def _fail(kept: asyncio.Future[None], fault: BaseException) -> None:
    if not kept.done():
        kept.set_exception(fault)
