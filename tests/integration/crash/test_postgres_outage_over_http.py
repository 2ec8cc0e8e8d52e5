"""A database outage under load: clients get 503 and retry, and nothing is lost."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path

from tests.services.fork_server import ForkServer
from tests.services.postgres import Server
from tests.support.crash.history_checker import (
    find_violations,
    open_store,
    read_requests,
    read_store,
)
from tests.support.crash.load import Load
from tests.support.crash.restarting_coordinator import RestartingCoordinator, running_coordinator
from tests.support.crash.retrying_client import ReceivedResponse, admin_client, enroll_factory
from tests.support.polling import until

JOBS = 80
WORKERS = 6
BEGINS_AT = (100, 250)
"""The numbers of answers after which the database crashes."""
REFUSALS = 20
"""The database comes back when so many requests were refused."""

TTL_S = 17
"""A little longer than the shortest silence that counts as a gap."""


def refused(notes: list[ReceivedResponse]) -> list[ReceivedResponse]:
    return [note for note in notes if note.status >= HTTPStatus.INTERNAL_SERVER_ERROR]


def enough(seen: Callable[[], list[ReceivedResponse]], count: int) -> bool:
    return len(seen()) >= count


async def crash_twice(postgres: Server, notes: list[ReceivedResponse]) -> None:
    """Crash the database twice; restart it after clients have received refusals."""

    for number, moment in enumerate(BEGINS_AT, 1):
        await until(partial(enough, lambda: notes, moment))
        await asyncio.to_thread(postgres.stop, "immediate")
        await until(partial(enough, lambda: refused(notes), number * REFUSALS))
        await asyncio.to_thread(postgres.start)


async def test_database_outage_returns_503_and_clients_then_continue(
    forks: ForkServer, private_postgres: Server, tmp_path: Path
) -> None:
    where = private_postgres.dsn()
    coordinator = RestartingCoordinator(forks, tmp_path, store=where)
    async with running_coordinator(coordinator), admin_client(coordinator) as admin:
        load = Load(admin, jobs=JOBS, factories=WORKERS)
        await load.enroll_factories()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(load.work())
            tasks.create_task(crash_twice(private_postgres, admin.responses))
        await coordinator.stop()
    result = refused(admin.responses)
    assert len(result) >= REFUSALS * len(BEGINS_AT)
    assert {(note.status, note.body["code"]) for note in result} == {(503, "unavailable")}
    assert all(note.body["type"].startswith("urn:gigafactory:problem:") for note in result)
    async with open_store(where) as kept:
        assert (
            await find_violations(kept, read_requests(coordinator.history), admin.responses) == []
        )
        assert await load.violations(kept) == []


async def test_lease_that_expired_during_a_database_outage_is_not_reaped(
    forks: ForkServer, private_postgres: Server, tmp_path: Path
) -> None:
    where = private_postgres.dsn()
    short = {"AQ_LEASE_TTL": str(TTL_S), "AQ_FLEET_LEASE_RENEW_SEC": "5"}
    coordinator = RestartingCoordinator(forks, tmp_path, store=where, settings=short)
    async with running_coordinator(coordinator), admin_client(coordinator) as admin:
        factory = await enroll_factory(admin, "mac-1")
        job_id = await admin.submit("kept")
        grant = await factory.granted()
        ends = datetime.fromisoformat(grant["expiresAt"])
        await asyncio.to_thread(private_postgres.stop, "immediate")

        def ran_out() -> bool:
            return datetime.now(UTC) > ends

        def reaper_came_by() -> bool:
            return any(
                asked.what == "extend" and asked.accepted
                for asked in read_requests(coordinator.history)
            )

        await until(ran_out)
        await asyncio.to_thread(private_postgres.start)
        await until(reaper_came_by)
        renewed = await factory.ask("POST", f"/jobs/{job_id}/lease/renew", {"leaseEpoch": 1})
        assert datetime.fromisoformat(renewed.require()["expiresAt"]) > ends
        await factory.build(grant)
        await coordinator.stop()
    async with open_store(where) as kept:
        assert (
            await find_violations(kept, read_requests(coordinator.history), admin.responses) == []
        )
        entries, _ = await read_store(kept)
    kinds = [entry.event.type for entry in entries if entry.event.job_id]
    assert kinds == ["submitted", "assigned", "started", "checkpoint", "review_requested"]
