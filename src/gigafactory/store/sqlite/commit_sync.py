"""COMMIT on the event loop while the disk is fast, in a thread while it is slow."""

import asyncio
import sqlite3
import threading
from contextlib import suppress
from queue import SimpleQueue
from time import perf_counter
from typing import NamedTuple

QUICK_S = 0.001
"""A faster sync than this is not worth the switch to a thread."""
NEWEST_SHARE = 0.25
"""Weight of the newest sync in the average: one slow sync moves the next ones to the thread."""
CHECKPOINT_WRITES = 400
"""Writes between checkpoints, which are slow and therefore run in the thread."""


class _CommitRequest(NamedTuple):
    done: asyncio.Future[None]
    checkpoint: bool


class CommitSync:
    """Commits the transactions of one connection, one after the other."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Start the thread that commits while the disk is slow."""
        self._connection = connection
        self._average_s = 0.0
        self._writes = 0
        self._requests: SimpleQueue[_CommitRequest | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="sqlite-sync", daemon=True)
        self._thread.start()

    async def commit(self, writes: int) -> None:
        """Commit the open transaction; return when it is on disk, raise if it was rolled back.

        Until then the caller must not use the connection, even if the call is cancelled.
        """
        self._writes += writes
        checkpoint = self._writes >= CHECKPOINT_WRITES
        if checkpoint:
            self._writes = 0
        if checkpoint or self._average_s > QUICK_S:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._requests.put(_CommitRequest(done, checkpoint))
            await done
        else:
            self._commit()

    def close(self) -> None:
        """Finish all requested commits, and stop the thread."""
        self._requests.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            call = request.done.get_loop().call_soon_threadsafe
            try:
                self._commit()
            except BaseException as fault:  # noqa: BLE001 - passed on to the caller
                call(_fail, request.done, fault)
                continue
            if request.checkpoint:
                # A failure loses nothing: the next checkpoint handles the same log.
                with suppress(sqlite3.Error):
                    self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            call(_settle, request.done)

    def _commit(self) -> None:
        started = perf_counter()
        try:
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._average_s += (perf_counter() - started - self._average_s) * NEWEST_SHARE


def _settle(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _fail(done: asyncio.Future[None], fault: BaseException) -> None:
    if not done.done():
        done.set_exception(fault)
