"""The database goes away under load: clients are told to ask again, and nothing is lost."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path

from tests.services.fork_server import ForkServer
from tests.services.postgres import Server
from tests.support.crash.history_checker import asked_in, everything, faults, opened
from tests.support.crash.load import Crowd
from tests.support.crash.restarting_coordinator import Lives, living
from tests.support.crash.retrying_client import Note, calling, enrolled
from tests.support.polling import until

JOBS = 80
WORKERS = 6
BEGINS_AT = (100, 250)
"""The numbers of answers after which the database crashes."""
REFUSALS = 20
"""The database comes back when so many requests were refused."""

TTL_S = 17
"""A little longer than the shortest silence that counts as a gap."""


def refused(notes: list[Note]) -> list[Note]:
    return [note for note in notes if note.status >= HTTPStatus.INTERNAL_SERVER_ERROR]


def enough(seen: Callable[[], list[Note]], count: int) -> bool:
    return len(seen()) >= count


async def crash_twice(postgres: Server, notes: list[Note]) -> None:
    """Crash the database and start it again, each time when clients have noticed."""

    for number, moment in enumerate(BEGINS_AT, 1):
        await until(partial(enough, lambda: notes, moment))
        await asyncio.to_thread(postgres.stop, "immediate")
        await until(partial(enough, lambda: refused(notes), number * REFUSALS))
        await asyncio.to_thread(postgres.start)


async def test_while_the_database_is_away_clients_are_told_so_and_then_go_on(
    forks: ForkServer, private_postgres: Server, tmp_path: Path
) -> None:
    where = private_postgres.dsn()
    lives = Lives(forks, tmp_path, store=where)
    async with living(lives), calling(lives) as admin:
        crowd = Crowd(admin, jobs=JOBS, factories=WORKERS)
        await crowd.gather()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(crowd.work())
            tasks.create_task(crash_twice(private_postgres, admin.notes))
        await lives.stop()
    told = refused(admin.notes)
    assert len(told) >= REFUSALS * len(BEGINS_AT)
    assert {(note.status, note.body["code"]) for note in told} == {(503, "unavailable")}
    assert all(note.body["type"].startswith("urn:gigafactory:problem:") for note in told)
    async with opened(where) as kept:
        assert await faults(kept, asked_in(lives.history), admin.notes) == []
        assert await crowd.faults(kept) == []


async def test_a_lease_that_ran_out_while_the_database_was_away_is_not_taken(
    forks: ForkServer, private_postgres: Server, tmp_path: Path
) -> None:
    where = private_postgres.dsn()
    short = {"AQ_LEASE_TTL": str(TTL_S), "AQ_FLEET_LEASE_RENEW_SEC": "5"}
    lives = Lives(forks, tmp_path, store=where, settings=short)
    async with living(lives), calling(lives) as admin:
        factory = await enrolled(admin, "mac-1")
        job_id = await admin.submit("kept")
        grant = await factory.granted()
        ends = datetime.fromisoformat(grant["expiresAt"])
        await asyncio.to_thread(private_postgres.stop, "immediate")

        def ran_out() -> bool:
            return datetime.now(UTC) > ends

        def reaper_came_by() -> bool:
            return any(
                asked.what == "extend" and asked.accepted for asked in asked_in(lives.history)
            )

        await until(ran_out)
        await asyncio.to_thread(private_postgres.start)
        await until(reaper_came_by)
        renewed = await factory.ask("POST", f"/jobs/{job_id}/lease/renew", {"leaseEpoch": 1})
        assert datetime.fromisoformat(renewed.require()["expiresAt"]) > ends
        await factory.build(grant)
        await lives.stop()
    async with opened(where) as kept:
        assert await faults(kept, asked_in(lives.history), admin.notes) == []
        entries, _ = await everything(kept)
    kinds = [entry.event.type for entry in entries if entry.event.job_id]
    assert kinds == ["submitted", "assigned", "started", "checkpoint", "review_requested"]
