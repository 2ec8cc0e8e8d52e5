"""A worker that is stopped past its lease is fenced when it continues."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.services.fork_server import ROOT, ForkServer
from tests.support.api_server import API
from tests.support.crash.history_checker import find_violations, open_store, read_requests
from tests.support.crash.restarting_coordinator import RestartingCoordinator, running_coordinator
from tests.support.crash.retrying_client import (
    Factory,
    RetryingClient,
    admin_client,
    enroll_factory,
)

SHORT = {"AQ_LEASE_TTL": "3", "AQ_FLEET_LEASE_RENEW_SEC": "1"}
RENEW_EVERY_S = 0.5


@asynccontextmanager
async def working(url: str, factory: Factory, token: str) -> AsyncIterator[Process]:
    """Start a worker process and kill it when the block ends."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.crash.worker_process", url, factory.who),
        cwd=ROOT,
        env={**os.environ, "TOKEN": token},
        stdout=PIPE,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def said(process: Process) -> dict[str, Any]:
    """Return the next line of a worker, without successful renewals."""
    assert process.stdout is not None
    while True:
        line = json.loads(await process.stdout.readline())
        if line != {"what": "renew", "code": None}:
            result: dict[str, Any] = line
            return result


async def keep(factory: Factory, job_id: str, epoch: int) -> None:
    """Renew a lease until cancelled."""
    while True:
        where = f"/jobs/{job_id}/lease/renew"
        (await factory.ask("POST", where, {"leaseEpoch": epoch})).require()
        await asyncio.sleep(RENEW_EVERY_S)


async def log_of(admin: RetryingClient, job_id: str, epoch: int) -> str:
    process = admin.address.process
    url = f"{process.url}{API}/jobs/{job_id}/logs?run={job_id}.{epoch}"
    return (await admin.http.get(url, headers=admin.headers(process))).text


@pytest.mark.parametrize("taker", ["mac-2", "mac-1"], ids=["another", "the same factory again"])
async def test_worker_stopped_past_its_lease_is_fenced(
    taker: str, forks: ForkServer, tmp_path: Path
) -> None:
    coordinator = RestartingCoordinator(forks, tmp_path, settings=SHORT)
    async with running_coordinator(coordinator), admin_client(coordinator) as admin:
        sleepy = await enroll_factory(admin, "mac-1")
        other = sleepy if taker == sleepy.who else await enroll_factory(admin, taker)
        token = sleepy.headers(coordinator.process)["authorization"].removeprefix("Bearer ")
        job_id = await admin.submit("shared")
        async with working(coordinator.process.url, sleepy, token) as worker:
            assert await said(worker) == {"what": "building", "job": job_id, "epoch": 1}
            worker.send_signal(signal.SIGSTOP)
            grant = await other.granted()
            epoch = grant["leaseEpoch"]
            assert (grant["job"]["id"], epoch > 1) == (job_id, True)
            keeping = asyncio.create_task(keep(other, job_id, epoch))
            worker.send_signal(signal.SIGCONT)
            for what in ("renew", "log", "report", "release"):
                assert await said(worker) == {"what": what, "code": "fenced"}
            assert await worker.wait() == 0
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await other.build(grant)
        result = (await admin.ask("GET", f"/jobs/{job_id}/events")).require()["events"]
        assert [event["type"] for event in result].count("fenced") == 1
        assert [event["type"] for event in result].count("lease_expired") == 1
        assert await log_of(admin, job_id, 1) == "in time\n"
        assert await log_of(admin, job_id, epoch) == ""
        await coordinator.stop()
    async with open_store(tmp_path / "data" / "fleet.db") as kept:
        assert (
            await find_violations(kept, read_requests(coordinator.history), admin.responses) == []
        )
