"""The embedded store notices commits that a damaged write-ahead log has lost."""

import shutil
from pathlib import Path

import pytest

from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.change import RecordChange, Stored
from gigafactory.domain.tenancy.leader import LeaderHeartbeat
from gigafactory.store.sqlite import position_mark
from gigafactory.store.sqlite.store import SqliteStore
from tests.support.builders import NOON, a_job, a_submission

JOBS = 30


async def submit_jobs(store: SqliteStore) -> None:
    for number in range(JOBS):
        await store.commit(a_submission(a_job(id=f"job-{number}", name=f"job-{number}")))


def copy_open_store(folder: Path) -> Path:
    """Return a copy of an open store, like after a crash: its commits are still in the log."""
    copy = folder / "copy"
    copy.mkdir()
    for name in ("fleet.db", "fleet.db-wal", "fleet.db.mark"):
        shutil.copy(folder / name, copy / name)
    return copy / "fleet.db"


async def a_copy_of_a_running_store(folder: Path) -> Path:
    async with SqliteStore.open(folder / "fleet.db") as store:
        await submit_jobs(store)
        return copy_open_store(folder)


def flip_a_bit_in_the_log(path: Path) -> None:
    wal = path.with_name("fleet.db-wal")
    data = bytearray(wal.read_bytes())
    data[len(data) // 2] ^= 1
    wal.write_bytes(data)


@pytest.fixture(autouse=True)
def always_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_mark, "MARK_EVERY_S", 0.0)


async def test_a_crash_loses_nothing(tmp_path: Path) -> None:
    async with SqliteStore.open(await a_copy_of_a_running_store(tmp_path)) as store:
        assert (await store.position(), store.rollbacks) == (JOBS, 0)


async def test_one_flipped_bit_in_the_log_is_noticed(tmp_path: Path) -> None:
    path = await a_copy_of_a_running_store(tmp_path)
    flip_a_bit_in_the_log(path)
    async with SqliteStore.open(path) as store:
        assert await store.position() < JOBS
        assert store.rollbacks == 1
    async with SqliteStore.open(path) as store:
        assert store.rollbacks == 0


async def test_the_loss_of_a_burst_is_noticed_that_was_followed_by_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 1000.0
    monkeypatch.setattr(position_mark, "MARK_EVERY_S", 1.0)
    monkeypatch.setattr(position_mark, "monotonic", lambda: seconds)
    async with SqliteStore.open(tmp_path / "fleet.db") as store:
        await submit_jobs(store)
        seconds += 5.0
        # The reaper's beat has no event.
        beat = LeaderHeartbeat(duty="reaper", until=NOON)
        assert isinstance(await store.commit(RecordChange(before=None, after=beat)), Stored)
        path = copy_open_store(tmp_path)
    flip_a_bit_in_the_log(path)
    async with SqliteStore.open(path) as store:
        assert store.rollbacks == 1


async def test_a_symbolic_link_has_the_mark_of_its_file(tmp_path: Path) -> None:
    path = await a_copy_of_a_running_store(tmp_path)
    flip_a_bit_in_the_log(path)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    async with SqliteStore.open(link) as store:
        assert store.rollbacks == 1


@pytest.mark.parametrize("moved_in", [True, False], ids=["replaced", "removed"])
async def test_nothing_is_acknowledged_into_a_file_that_is_no_longer_in_place(
    tmp_path: Path, *, moved_in: bool
) -> None:
    backup = await a_copy_of_a_running_store(tmp_path)
    path = tmp_path / "fleet.db"
    async with SqliteStore.open(path) as store:
        if moved_in:
            backup.replace(path)
        else:
            path.unlink()
        with pytest.raises(Unavailable, match=r"was replaced or removed .* restart"):
            await store.commit(a_submission(a_job(id="job-new", name="job-new")))


async def test_a_mark_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "fleet.db.mark").mkdir()
    with pytest.raises(Unavailable, match=r"fleet\.db\.mark is unavailable"):
        async with SqliteStore.open(tmp_path / "fleet.db"):
            pass


@pytest.mark.parametrize("mark", [b"", b"nonsense", b"12"])
async def test_an_unreadable_mark_alarms_nobody(tmp_path: Path, mark: bytes) -> None:
    path = await a_copy_of_a_running_store(tmp_path)
    path.with_name("fleet.db.mark").write_bytes(mark)
    async with SqliteStore.open(path) as store:
        assert (await store.position(), store.rollbacks) == (JOBS, 0)
