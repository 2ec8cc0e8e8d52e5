"""Commits run on the event loop while the disk is fast, and in a thread otherwise."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator

import pytest

from gigafactory.store.sqlite import commit_sync as syncing
from gigafactory.store.sqlite.commit_sync import CHECKPOINT_WRITES, CommitSync

COMMIT = "COMMIT"
CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"


class Disk:
    """A connection with its own clock, whose commits take `takes_s`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.takes_s = 0.0
        self.faults: dict[str, sqlite3.Error] = {}
        self.in_transaction = False
        self.done: list[tuple[str, bool]] = []
        """What was asked for, and whether the event loop did it itself."""

    def execute(self, statement: str) -> "Disk":
        here = threading.current_thread() is threading.main_thread()
        self.done.append((statement, here))
        if statement in self.faults:
            self.in_transaction = statement == COMMIT
            raise self.faults[statement]
        if statement == COMMIT:
            self.now += self.takes_s
        self.in_transaction = False
        return self

    def fetchone(self) -> None:
        return None

    @property
    def here(self) -> list[bool]:
        return [here for statement, here in self.done if statement == COMMIT]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(syncing, "perf_counter", lambda: made.now)
    return made


@pytest.fixture
def syncs(disk: Disk) -> Iterator[CommitSync]:
    made = CommitSync(disk)  # type: ignore[arg-type]
    yield made
    made.close()


async def test_quick_disk_commits_on_the_event_loop(disk: Disk, syncs: CommitSync) -> None:
    disk.takes_s = 0.0005
    for _ in range(10):
        await syncs.commit(1)
    assert disk.here == [True] * 10


async def test_slow_disk_commits_in_the_thread(disk: Disk, syncs: CommitSync) -> None:
    disk.takes_s = 0.02
    for _ in range(5):
        await syncs.commit(1)
    assert disk.here == [True, False, False, False, False]


async def test_disk_commits_on_the_event_loop_again_after_one_slow_commit(
    disk: Disk, syncs: CommitSync
) -> None:
    disk.takes_s = 0.02
    await syncs.commit(1)
    disk.takes_s = 0.0001
    for _ in range(30):
        await syncs.commit(1)
    assert disk.here[:4] == [True, False, False, False]
    assert disk.here[-1]


async def test_many_writes_trigger_a_checkpoint_in_the_thread(
    disk: Disk, syncs: CommitSync
) -> None:
    await syncs.commit(CHECKPOINT_WRITES - 1)
    await syncs.commit(1)
    await syncs.commit(1)
    assert disk.done == [(COMMIT, True), (COMMIT, False), (CHECKPOINT, False), (COMMIT, True)]


async def test_failed_checkpoint_does_not_fail_the_commit(disk: Disk, syncs: CommitSync) -> None:
    disk.faults[CHECKPOINT] = sqlite3.OperationalError("disk I/O error")
    await syncs.commit(CHECKPOINT_WRITES)
    await syncs.commit(CHECKPOINT_WRITES)
    assert [statement for statement, _ in disk.done] == [COMMIT, CHECKPOINT] * 2


@pytest.mark.parametrize("writes", [1, CHECKPOINT_WRITES])
async def test_failed_commit_is_rolled_back_and_raised(
    disk: Disk, syncs: CommitSync, writes: int
) -> None:
    disk.faults[COMMIT] = sqlite3.OperationalError("database or disk is full")
    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        await syncs.commit(writes)
    assert [statement for statement, _ in disk.done] == [COMMIT, "ROLLBACK"]
    disk.faults.clear()
    await syncs.commit(1)
    assert disk.done[-1][0] == COMMIT


@pytest.mark.parametrize("fails", [False, True])
async def test_cancelled_caller_does_not_stop_the_commit(
    disk: Disk, syncs: CommitSync, *, fails: bool
) -> None:
    if fails:
        disk.faults[COMMIT] = sqlite3.OperationalError("disk I/O error")
    leaving = asyncio.create_task(syncs.commit(CHECKPOINT_WRITES))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    disk.faults.clear()
    await syncs.commit(CHECKPOINT_WRITES)
    assert leaving.cancelled()
    assert len(disk.here) == 2
