"""Preemption over HTTP: an urgent job takes the seat of a less urgent one, which loses no work."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.api_server import Worker, a_server, a_worker, open_stream
from tests.support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

ONE_SEAT = {"slots": 1, "engines": {"claude": {"version": "2.1.0", "seats": 1}}}


async def submit(admin: httpx.AsyncClient, name: str, priority: str) -> str:
    asked = {"manifest": {"name": name, "priority": priority}}
    made = await admin.post("/jobs", json=asked)
    job_id: str = made.json()["id"]
    return job_id


async def events(admin: httpx.AsyncClient, job_id: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = (await admin.get(f"/jobs/{job_id}/events")).json()["events"]
    return result


async def explained(admin: httpx.AsyncClient, job_id: str) -> str:
    summary: str = (await admin.get(f"/jobs/{job_id}/explain")).json()["summary"]
    return summary


async def running_alone(admin: httpx.AsyncClient, worker: Worker, priority: str) -> dict[str, Any]:
    """Start a job on the only seat and return its grant."""
    await worker.beat(**ONE_SEAT)
    await submit(admin, f"{priority}-job", priority)
    grant = await worker.granted()
    await worker.report(grant, stage="building")
    return grant


async def test_critical_job_takes_the_seat_of_a_low_one_which_resumes_elsewhere(
    tmp_path: Path,
) -> None:
    async with a_server(tmp_path) as server, server.client() as admin, a_worker(server) as worker:
        grant = await running_alone(admin, worker, "low")
        low = grant["job"]["id"]
        async with open_stream(worker.http, f"/factories/{worker.id}/offers") as messages:
            await anext(messages)
            urgent = await submit(admin, "urgent", "critical")
            command = await anext(messages)
        assert (command.event, command.data) == ("command", {"type": "preempt", "jobId": low})
        assert f"low job {low} is being preempted on mac-1, by " in await explained(admin, urgent)
        assert f"hand it back for job:{urgent}" in await explained(admin, low)
        checkpoint = {"branch": "aq/wip/low/1", "commit": "abc"}
        await worker.report(grant, checkpoint=checkpoint)
        released = await worker.http.post(
            f"/jobs/{low}/lease/release", json={"leaseEpoch": 1, "reason": "asked to"}
        )
        assert released.json()["stage"] == "queued"
        assert (await worker.granted())["job"]["id"] == urgent
        kinds = {event["type"]: event["data"] for event in await events(admin, low)}
        assert kinds["preempt_requested"]["by"] == kinds["preempted"]["by"] == f"job:{urgent}"
        assert "preempting" in [event["type"] for event in await events(admin, urgent)]
        later = await submit(admin, "later", "low")
        async with a_worker(server, "mac-2") as other:
            again = await other.granted()
            assert again["job"]["id"] == low, f"{later} came later"
            assert again["job"]["checkpoint"]["commit"] == "abc"
            assert again["job"]["attempts"] == 0


async def test_no_job_is_preempted_for_an_equally_urgent_or_seated_job(
    tmp_path: Path,
) -> None:
    async with a_server(tmp_path) as server, server.client() as admin, a_worker(server) as worker:
        grant = await running_alone(admin, worker, "critical")
        waiting = await submit(admin, "second", "critical")
        high = await submit(admin, "third", "high")
        for _ in range(3):
            await server.coordinator.preemptor.step()
        data = (await worker.beat(running=[grant["job"]["id"]], **ONE_SEAT)).json()
        assert data["commands"] == []
        assert "every slot is taken" in await explained(admin, waiting)
        await worker.report(grant, stage="review")
        assert (await worker.granted())["job"]["id"] == waiting
        assert (await admin.get(f"/jobs/{high}")).json()["stage"] == "queued"


async def test_two_urgent_jobs_preempt_exactly_two_jobs(tmp_path: Path) -> None:
    async with a_server(tmp_path) as server, server.client() as admin, a_worker(server) as worker:
        for number in range(4):
            await submit(admin, f"low-{number}", "low")
            await worker.granted()
        for number in range(2):
            await submit(admin, f"urgent-{number}", "critical")

        async def asked() -> bool:
            commands = (await worker.beat()).json()["commands"]
            assert len(commands) <= 2
            return len(commands) == 2

        await until(asked)
        for _ in range(3):
            await server.coordinator.preemptor.step()
        assert await asked()
