"""Promises of the embedded store alone: file, owner, schema, query plans and errors."""

import asyncio
import re
import sqlite3
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec.structs import replace

from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.change import Stored
from gigafactory.domain.job.job import Priority, Stage
from gigafactory.store.group_commit import BatchResult, Group
from gigafactory.store.sqlite import connection as connections
from gigafactory.store.sqlite import job_query as finding
from gigafactory.store.sqlite.queries import MIGRATIONS, SCHEMA, SQL
from gigafactory.store.sqlite.store import SqliteStore
from tests.support.builders import a_job, a_step, a_submission

ROOT = Path(__file__).parents[3]


def schema_of(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the SQL of every table, index and trigger, with whitespace normalized."""
    found = connection.execute("SELECT type || ' ' || name, sql FROM sqlite_master")
    return {name: re.sub(r"\s+", " ", sql or "") for name, sql in found}


def test_schema_equals_the_sum_of_its_migrations() -> None:
    migrated, whole = sqlite3.connect(":memory:"), sqlite3.connect(":memory:")
    try:
        for step in MIGRATIONS:
            migrated.executescript(step)
        whole.executescript(SCHEMA)
        assert schema_of(migrated) == schema_of(whole)
        feed = "SELECT * FROM feed"
        assert migrated.execute(feed).fetchall() == whole.execute(feed).fetchall()
    finally:
        migrated.close()
        whole.close()


@pytest.mark.parametrize("version", range(len(MIGRATIONS) + 1))
async def test_database_of_every_earlier_version_is_migrated(tmp_path: Path, version: int) -> None:
    path = tmp_path / "fleet.db"
    old = sqlite3.connect(path)
    for step in MIGRATIONS[:version]:
        old.executescript(step)
    old.execute(f"PRAGMA user_version = {version}")
    old.close()
    async with SqliteStore.open(path) as store:
        assert isinstance(await store.commit(a_submission(a_job())), Stored)
        assert await store.job("job-1") == a_job()
    new = sqlite3.connect(path)
    assert new.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    new.close()


async def test_database_of_a_newer_program_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 999")
    newer.close()
    with pytest.raises(Unavailable, match="has schema 999, but this program supports"):
        async with SqliteStore.open(path):
            pass


class WatchedStore(SqliteStore):
    """A store that notes in which thread it writes."""

    threads: ClassVar[list[threading.Thread]] = []

    def _write(self, groups: list[Group]) -> BatchResult:
        self.threads.append(threading.current_thread())
        return super()._write(groups)


async def test_a_request_with_very_many_rows_does_not_hold_up_the_event_loop(
    tmp_path: Path,
) -> None:
    small = (a_submission(a_job()),)
    many = tuple(a_submission(a_job(id=f"job-{n}", name=f"job-{n}")) for n in range(2, 2000))
    dense = tuple(
        a_submission(
            a_job(id=f"dep-{n}", name=f"dep-{n}", deps=tuple(f"job-{d}" for d in range(n)))
        )
        for n in range(90)
    )
    async with WatchedStore.open(tmp_path / "fleet.db") as store:
        for writes in (small, many, dense):
            assert isinstance(await store.commit(*writes), Stored)
        assert await store.job("job-1999") == many[-1].after
        assert [job.id for job in await store.dependents("job-88")] == ["dep-89"]
    own = threading.current_thread()
    assert [thread is own for thread in WatchedStore.threads] == [True, False, False]


async def test_stored_data_survives_reopening(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    async with SqliteStore.open(path) as store:
        await store.commit(a_submission(a_job(), take=("lock/x",)))
    async with SqliteStore.open(path) as store:
        assert await store.job("job-1") == a_job()
        assert await store.key_owners(["lock/x"]) == {"lock/x": "job-1"}
        assert await store.position() == 1
        assert await store.commit(a_step(a_job())) == Stored(2)
        assert [e.event.position for e in await store.feed(after=0)] == [1, 2]


async def test_database_files_are_private_to_their_owner(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    async with SqliteStore.open(path) as store:
        await store.commit(a_submission(a_job()))
        files = await asyncio.to_thread(lambda: list(tmp_path.iterdir()))
        assert {file.name for file in files if file.stat().st_mode & 0o077} == set()
        names = {"fleet.db", "fleet.db-wal", "fleet.db-shm", "fleet.db.owner", "fleet.db.mark"}
        assert {file.name for file in files} == names


@pytest.mark.parametrize("name", ["same", "symlink", "hard link"])
async def test_second_coordinator_on_one_file_is_rejected(tmp_path: Path, name: str) -> None:
    path = tmp_path / "fleet.db"
    path.touch()
    other = tmp_path / "other" / "fleet.db"
    other.parent.mkdir()
    match name:
        case "same":
            other = path
        case "symlink":
            other.symlink_to(path)
        case _:
            other.hardlink_to(path)
    script = (
        "import asyncio, sys\n"
        "from gigafactory.store.sqlite.store import SqliteStore\n"
        "async def main():\n"
        "    async with SqliteStore.open(sys.argv[1]):\n"
        "        print('opened')\n"
        "asyncio.run(main())\n"
    )

    def second() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", script, str(other)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    async with SqliteStore.open(path) as store:
        run = await asyncio.to_thread(second)
        assert (run.stdout, run.returncode) == ("", 1)
        assert "belongs to a running coordinator; stop that" in run.stderr
        with pytest.raises(Unavailable, match="belongs to a running coordinator"):
            async with SqliteStore.open(path):
                pass
        assert isinstance(await store.commit(a_submission(a_job())), Stored)
    run = await asyncio.to_thread(second)
    assert run.stdout == "opened\n"


async def test_non_database_file_is_rejected_and_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    path.write_bytes(b"a letter to somebody, not a database\n" * 100)
    with pytest.raises(Unavailable, match="not a Gigafactory database"):
        async with SqliteStore.open(path):
            pass
    assert path.read_bytes().startswith(b"a letter to somebody")


async def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"nowhere.*check that the folder exists"):
        async with SqliteStore.open(tmp_path / "nowhere" / "fleet.db"):
            pass


async def test_closed_store_is_unavailable(tmp_path: Path) -> None:
    async with SqliteStore.open(tmp_path / "fleet.db") as store:
        pass
    with pytest.raises(Unavailable, match="closed"):
        await store.commit(a_submission(a_job()))
    with pytest.raises(Unavailable, match="closed"):
        await store.job("job-1")


FULL_DISK = """
import asyncio, resource, sys
from gigafactory.domain.job.change import Stored
from gigafactory.domain.errors import Unavailable
from gigafactory.store.sqlite.store import SqliteStore
from tests.support.builders import a_job, a_submission

async def main():
    async with SqliteStore.open(sys.argv[1]) as store:
        big = "x" * 100_000
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, limit[1]))
        kept, n = [], 0
        while True:
            n += 1
            try:
                verdict = await store.commit(a_submission(a_job(id=f"job-{n}"), body=big))
            except Unavailable as away:
                print(away.detail)
                break
            assert isinstance(verdict, Stored)
            kept.append(f"job-{n}")
        assert kept
        assert set(await store.jobs([*kept, f"job-{n}"])) == set(kept)
        assert await store.position() == len(kept)
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        verdict = await store.commit(a_submission(a_job(id=f"job-{n}"), body=big))
        assert verdict == Stored(len(kept) + 1), verdict
        print("and on")

asyncio.run(main())
"""


def test_full_disk_is_reported_and_the_store_recovers(
    tmp_path: Path,
) -> None:
    path = tmp_path / "fleet.db"
    command = [sys.executable, "-c", FULL_DISK, str(path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    sentence, went_on = run.stdout.splitlines()
    assert re.search(r"fleet\.db is unavailable: the disk (is full|failed)", sentence)
    assert went_on == "and on"


async def test_failed_commit_does_not_fail_concurrent_commits(tmp_path: Path) -> None:
    async with SqliteStore.open(tmp_path / "fleet.db") as store:
        broken = a_submission(a_job(id="broken", title="\ud800"))
        good = [a_submission(a_job(id=f"job-{n}")) for n in range(5)]
        verdicts = await asyncio.gather(
            *(store.commit(change) for change in (*good[:2], broken, *good[2:])),
            return_exceptions=True,
        )
        assert isinstance(verdicts.pop(2), UnicodeEncodeError)
        assert all(isinstance(verdict, Stored) for verdict in verdicts)
        assert await store.position() == 5


async def test_concurrent_reader_never_sees_a_gap_in_positions(tmp_path: Path) -> None:
    """Check for gaps, which numbers drawn before the commit, like a serial's, would leave."""
    path = tmp_path / "fleet.db"
    looks = 0

    async def look(done: asyncio.Event) -> None:
        nonlocal looks
        reader = connections.connect(path, cache_kib=1024)
        while not done.is_set():
            positions = [p for (p,) in reader.execute("SELECT position FROM event ORDER BY 1")]
            assert positions == list(range(1, len(positions) + 1))
            looks += 1
            await asyncio.sleep(0)
        reader.close()

    async def write(store: SqliteStore, name: str) -> None:
        change = a_submission(a_job(id=name))
        for _ in range(20):
            assert isinstance(await store.commit(change), Stored)
            change = a_step(change.after)

    async with SqliteStore.open(path) as store:
        done = asyncio.Event()
        looking = asyncio.create_task(look(done))
        await asyncio.gather(*(write(store, f"job-{n}") for n in range(20)))
        done.set()
        await looking
        assert looks > 1
        assert await store.position() == 400


PLANS: dict[str, tuple[dict[str, object], str]] = {
    "": ({}, "sqlite_autoindex_job_1"),
    "name": ({"name": "x"}, "job_by_name (name=?)"),
    "repo": ({"repo": "x"}, "job_by_repo (repo=?)"),
    "profile": ({"profile": "x"}, "job_by_profile (profile=?)"),
    "engine": ({"engine": "x"}, "job_by_engine (engine=?)"),
    "priority": ({"priority": Priority.LOW}, "job_by_priority (priority=?)"),
    "parent": ({"parent_id": "x"}, "job_by_parent (parent_id=?)"),
    "product": ({"products": ("x",)}, "job_by_product (product_id=?)"),
    "products": ({"products": ("x", "y")}, "job_by_product (product_id=?)"),
    "stage": ({"stages": (Stage.QUEUED,)}, "job_by_stage (stage=?)"),
    "stages": ({"stages": (Stage.QUEUED, Stage.FAILED)}, "job_by_stage (stage=?)"),
    "both": (
        {"products": ("x", "y"), "stages": (Stage.QUEUED, Stage.FAILED)},
        "job_by_product_stage (product_id=? AND stage=?)",
    ),
    "engine and stage": (
        {"engine": "x", "stages": (Stage.QUEUED,), "products": ("y",)},
        "job_by_engine (engine=?)",
    ),
    "name and all": (
        {"name": "x", "engine": "x", "repo": "x", "text": "x", "priority": Priority.LOW},
        "job_by_name (name=?)",
    ),
}


@pytest.mark.parametrize("after", [None, "5"])
@pytest.mark.parametrize("name", PLANS)
def test_every_filter_uses_an_index_in_id_order(name: str, after: str | None) -> None:
    fields, index = PLANS[name]
    query = replace(JobQuery(after=after), **fields)
    if after is not None and fields:
        index = index.replace(")", " AND id<?)")
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    statement, values = finding.statement_for(query, finding.choose_lead(connection, query))
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    connection.close()
    along = [step for step in steps if re.match(r"(SEARCH|SCAN) job ", step)]
    page = "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"
    assert all(index in step or step == page for step in along), along
    assert len(along) > 1
    # Only the jobs of one page may be sorted; the index must deliver its own order.
    sorted_ = {one for one, then in pairwise(steps) if then.startswith("USE TEMP B-TREE")}
    assert not sorted_ & {step for step in along if step != page}, steps


@pytest.mark.parametrize(
    ("fields", "lead"),
    [
        ({"text": "x"}, "SCAN search VIRTUAL TABLE INDEX"),
        ({"factory_id": "x"}, "SCAN lease"),
        ({"factory_id": "x", "text": "x", "stages": (Stage.QUEUED,)}, "SCAN lease"),
    ],
)
def test_selective_filter_leads_the_query(fields: dict[str, object], lead: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    query = replace(JobQuery(after="5"), **fields)
    statement, values = finding.statement_for(query, finding.choose_lead(connection, query))
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    connection.close()
    assert any(step.startswith(lead) for step in steps), steps
    assert not [step for step in steps if step.startswith("SCAN job")], steps


def test_more_selective_of_two_filters_leads_the_query() -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    stages = ["shipped"] * 20 + ["building"] * 3
    for n, stage in enumerate(stages):
        engine = "codex" if n in {0, 21} else "claude"
        values = (str(n), "notes", "x", stage, "low", None, None, engine, None, 1, 1, "x", "{}")
        connection.execute(SQL["insert_job"], values)
    for engine, stage, lead in (
        ("codex", Stage.SHIPPED, "engine"),
        ("codex", Stage.BUILDING, "engine"),
        ("claude", Stage.SHIPPED, "place"),
        ("claude", Stage.BUILDING, "place"),
        ("gemini", Stage.QUEUED, "engine"),
    ):
        query = JobQuery(engine=engine, stages=(stage,), products=("notes",))
        assert finding.choose_lead(connection, query) == lead
    connection.close()


async def test_common_words_are_searched_along_the_list(
    tmp_path: Path,
) -> None:
    jobs = [
        a_job(id=f"{n:05}", title=f"Fix number {n}", name="x" if n % 7 else "rare")
        for n in range(finding.MANY + 200)
    ]
    async with SqliteStore.open(tmp_path / "fleet.db") as store:
        await store.commit(*map(a_submission, jobs))
        common = await store.find_jobs(JobQuery(text="FIX num", limit=10))
        assert common == jobs[:-11:-1]
        both = await store.find_jobs(JobQuery(text="fix rare", oldest_first=True, limit=3))
        assert both == jobs[0:21:7]
        assert await store.find_jobs(JobQuery(text="ix")) == []


def test_every_query_starts_with_a_comment() -> None:
    silent = [name for name, text in SQL.items() if not text.startswith("-- ")]
    assert silent == []
