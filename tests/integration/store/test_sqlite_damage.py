"""The embedded store notices commits that a damaged write-ahead log has lost."""

import shutil
from pathlib import Path

import pytest

from gigafactory.store.sqlite import position_mark
from gigafactory.store.sqlite.store import SqliteStore
from tests.support.builders import a_job, a_submission

JOBS = 30


async def a_copy_of_a_running_store(folder: Path) -> Path:
    """Return a copy of an open store, like after a crash: its commits are still in the log."""
    copy = folder / "copy"
    copy.mkdir()
    async with SqliteStore.open(folder / "fleet.db") as store:
        for number in range(JOBS):
            await store.commit(a_submission(a_job(id=f"job-{number}", name=f"job-{number}")))
        for name in ("fleet.db", "fleet.db-wal", "fleet.db.mark"):
            shutil.copy(folder / name, copy / name)
    return copy / "fleet.db"


@pytest.fixture(autouse=True)
def always_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_mark, "MARK_EVERY_S", 0.0)


async def test_a_crash_loses_nothing(tmp_path: Path) -> None:
    async with SqliteStore.open(await a_copy_of_a_running_store(tmp_path)) as store:
        assert (await store.position(), store.rollbacks) == (JOBS, 0)


async def test_one_flipped_bit_in_the_log_is_noticed(tmp_path: Path) -> None:
    path = await a_copy_of_a_running_store(tmp_path)
    wal = path.with_name("fleet.db-wal")
    data = bytearray(wal.read_bytes())
    data[len(data) // 2] ^= 1
    wal.write_bytes(data)
    async with SqliteStore.open(path) as store:
        assert await store.position() < JOBS
        assert store.rollbacks == 1
    async with SqliteStore.open(path) as store:
        assert store.rollbacks == 0


@pytest.mark.parametrize("mark", [b"", b"nonsense", b"12"])
async def test_an_unreadable_mark_alarms_nobody(tmp_path: Path, mark: bytes) -> None:
    path = await a_copy_of_a_running_store(tmp_path)
    path.with_name("fleet.db.mark").write_bytes(mark)
    async with SqliteStore.open(path) as store:
        assert (await store.position(), store.rollbacks) == (JOBS, 0)
