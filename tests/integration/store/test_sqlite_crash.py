"""The embedded store after SIGKILL: every acknowledged commit is complete and in order."""

import asyncio
import subprocess
import sys
from itertools import islice
from pathlib import Path

from gigafactory.domain.job.change import FeedEntry
from gigafactory.store.sqlite.store import SqliteStore

ROOT = Path(__file__).parents[3]
LIVES = 3
ACKNOWLEDGED = 400


def commit_until_killed(path: Path, life: int) -> list[str]:
    """Kill a committing process and return the lines that it had acknowledged."""
    module = "tests.support.crash.sqlite_writer"
    command = [sys.executable, "-m", module, str(path), f"life-{life}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = list(islice(process.stdout, ACKNOWLEDGED))
        process.kill()
        lines += list(process.stdout)
    assert len(lines) >= ACKNOWLEDGED, "the process ended before it was killed"
    # The kill may have cut off the last line.
    return [line for line in lines if line.endswith("\n")]


async def whole_feed(store: SqliteStore) -> list[FeedEntry]:
    entries: list[FeedEntry] = []
    while page := await store.feed(after=len(entries)):
        entries += page
    return entries


async def test_killed_process_loses_no_acknowledged_commit(tmp_path: Path) -> None:
    path = tmp_path / "fleet.db"
    said: list[str] = []
    for life in range(LIVES):
        said += await asyncio.to_thread(commit_until_killed, path, life)
        async with SqliteStore.open(path) as store:
            entries = await whole_feed(store)
            assert [e.event.position for e in entries] == list(range(1, len(entries) + 1))
            assert await store.position() == len(entries)
            kept = {f"{e.event.position} {e.event.job_id} {e.event.seq}\n" for e in entries}
            assert set(said) <= kept
            held = await store.keys_with_prefix("seat/")
            leased = {e.job.id for e in entries if e.job and e.event.seq == 2 and e.job.lease}
            assert set(held.values()) == leased
            assert sum((await store.count_jobs_by_stage(None)).values()) == len(
                [e for e in entries if e.event.seq == 1]
            )
