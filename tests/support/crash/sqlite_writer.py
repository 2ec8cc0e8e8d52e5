"""A process that commits as fast as it can and prints each acknowledged commit until killed."""

import asyncio
import sys
from pathlib import Path

from gigafactory.domain.job.change import Stored
from gigafactory.store.sqlite.store import SqliteStore
from tests.support.builders import a_job, a_lease, a_step, a_submission

COMMITTERS = 16


async def commit(store: SqliteStore, name: str) -> None:
    """Create jobs forever, each with a key and a lease; print the position of each commit."""
    number = 0
    while True:
        number += 1
        job = a_job(id=f"{name}-{number}")
        taken = a_step(job, take=(f"seat/{job.id}",), lease=a_lease(), lease_epoch=1)
        for change in (a_submission(job), taken):
            verdict = await store.commit(change)
            assert isinstance(verdict, Stored)
            sys.stdout.write(f"{verdict.position} {job.id} {change.after.seq}\n")
            sys.stdout.flush()


async def main(path: Path, life: str) -> None:
    """Run several committers concurrently until killed."""
    async with SqliteStore.open(path) as store, asyncio.TaskGroup() as tasks:
        for number in range(COMMITTERS):
            tasks.create_task(commit(store, f"{life}-{number}"))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
