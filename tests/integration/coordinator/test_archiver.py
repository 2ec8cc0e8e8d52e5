"""Finished jobs are archived or deleted after their retention time."""

import asyncio
import base64
import gzip
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from gigafactory.coordinator.coordinator import Coordinator, CoordinatorSettings
from gigafactory.coordinator.core.ports import Blobs
from gigafactory.coordinator.duties.archiver import JOBS_PER_STEP
from gigafactory.dispatch.local import LocalDispatch
from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.artifact import Artifact, OrphanBlob
from gigafactory.domain.job.change import CommitResult, Write
from gigafactory.domain.job.run import Run
from gigafactory.domain.submission.retention import ArchivedJob
from gigafactory.domain.tenancy.access import Role
from gigafactory.profiles import shipped
from gigafactory.store.memory import MemoryStore
from gigafactory.system.ids import RandomIds
from tests.services import seaweedfs
from tests.services.aq import Shell
from tests.support.api_server import Server, Worker, a_server, a_worker
from tests.support.factory.local_fleet import Clock

DAY = timedelta(days=1)
PAGE = b"<h1>92 %</h1>\n" * 1000


class CutOff(MemoryStore):
    """A store that is unavailable after a set number of commits."""

    def __init__(self) -> None:
        super().__init__()
        self.commits_left: int | None = None

    async def commit(self, *writes: Write) -> CommitResult:
        if self.commits_left is not None:
            if self.commits_left == 0:
                raise Unavailable("away")
            self.commits_left -= 1
        return await super().commit(*writes)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> CutOff:
    return CutOff()


@pytest.fixture
async def server(tmp_path: Path, clock: Clock, store: CutOff) -> AsyncIterator[Server]:
    async with a_server(tmp_path, clock=clock, store=store) as running:
        yield running


@pytest.fixture
async def admin(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as client:
        yield client


async def submit(admin: httpx.AsyncClient, name: str, **manifest: object) -> str:
    answer = await admin.post("/jobs", json={"manifest": {"name": name, **manifest}, "body": "Do."})
    assert answer.status_code == 201, answer.text
    made: str = answer.json()["id"]
    return made


async def cancel(admin: httpx.AsyncClient, name: str) -> None:
    answer = await admin.post(f"/jobs/{name}/actions/cancel", json={})
    assert answer.json()["stage"] == "cancelled", answer.text


async def worked_on(admin: httpx.AsyncClient, worker: Worker) -> str:
    """Create a finished job with a run, a log and an artifact, and return its id."""
    job_id = await submit(admin, "report")
    grant = await worker.granted()
    await worker.report(grant, stage="building")
    for offset, data in ((0, "Größ".encode()[:-1]), (5, b"\x9fe\n")):
        said = {"offset": offset, "leaseEpoch": 1}
        await worker.http.post(f"/jobs/{job_id}/logs", params=said, content=data)
    digest = hashlib.sha256(PAGE).hexdigest()
    result: dict[str, str | int] = {"name": "page.html", "sha256": digest, "leaseEpoch": 1}
    sent = await worker.http.post(f"/jobs/{job_id}/artifacts", params=result, content=PAGE)
    assert sent.status_code == 201, sent.text
    await worker.report(grant, stage="review")
    await cancel(admin, "report")
    return job_id


def lines(file: bytes) -> list[tuple[str, Any]]:
    found = [json.loads(line) for line in gzip.decompress(file).splitlines()]
    return [next(iter(each.items())) for each in found]


async def test_finished_job_is_archived_with_its_events_runs_and_logs(
    server: Server, admin: httpx.AsyncClient, clock: Clock
) -> None:
    async with a_worker(server) as worker:
        job_id = await worked_on(admin, worker)
    story = (await admin.get(f"/jobs/{job_id}/events")).json()["events"]
    clock.advance(91 * DAY)
    await server.coordinator.archiver.step()
    await server.coordinator.janitor.step()
    gone = await admin.get(f"/jobs/{job_id}")
    assert (gone.status_code, gone.json()["code"]) == (404, "archived")
    assert f"`aq archive show {job_id}`" in gone.json()["detail"]
    [listed] = (await admin.get("/archive")).json()["jobs"]
    assert (listed["jobId"], listed["name"], listed["stage"]) == (job_id, "report", "cancelled")
    file = await admin.get(f"/archive/{job_id}")
    assert file.headers["content-type"] == "application/gzip"
    assert hashlib.sha256(file.content).hexdigest() == listed["sha256"]
    found = lines(file.content)
    assert [kind for kind, _ in found][:3] == ["archive", "job", "spec"]
    assert dict(found)["job"]["id"] == job_id
    assert dict(found)["spec"]["body"] == "Do."
    assert [result["type"] for kind, result in found if kind == "event"] == [
        e["type"] for e in story
    ]
    assert [result["number"] for kind, result in found if kind == "run"] == [1]
    assert "".join(result["text"] for kind, result in found if kind == "log") == "Größe\n"
    assert [result["name"] for kind, result in found if kind == "artifact"] == ["page.html"]
    data = [base64.b64decode(result["base64"]) for kind, result in found if kind == "bytes"]
    assert b"".join(data) == PAGE
    kept = sorted(
        str(path.relative_to(server.blobs)) for path in server.blobs.rglob("*") if path.is_file()
    )
    assert kept == [f"archive/{job_id}/job.jsonl.gz"]
    for kind in (Run, Artifact, OrphanBlob):
        assert list(await server.coordinator.store.records(kind)) == []
    result = (await admin.get("/audit")).json()["events"]
    assert [each["data"]["jobId"] for each in result if each["type"] == "job_archived"] == [job_id]


async def test_the_archive_shows_nothing_of_a_product_to_callers_without_access(
    server: Server, admin: httpx.AsyncClient, clock: Clock
) -> None:
    job_id = await submit(admin, "secret-plan")
    await cancel(admin, job_id)
    clock.advance(91 * DAY)
    await server.coordinator.archiver.step()
    stranger = await server.token("eve", Role.OPERATOR, ("shop",))
    async with server.client(stranger, product="shop") as eve:
        assert (await eve.get("/archive")).json()["jobs"] == []
        assert (await eve.get(f"/archive/{job_id}")).status_code == 404
        assert (await eve.get(f"/jobs/{job_id}")).json()["code"] == "not_found"
    async with server.client("") as anonymous:
        assert (await anonymous.get("/archive")).status_code == 401


async def test_unfinished_needed_and_recent_jobs_are_not_archived(
    server: Server, admin: httpx.AsyncClient, clock: Clock
) -> None:
    for name in ("needed", "old", "open", "reopened"):
        await submit(admin, name)
    await submit(admin, "waiting", deps=["needed"])
    for name in ("needed", "old", "reopened"):
        await cancel(admin, name)
    await admin.post("/jobs/reopened/actions/requeue", json={})
    clock.advance(60 * DAY)
    await submit(admin, "young")
    await cancel(admin, "young")
    clock.advance(31 * DAY)
    await server.coordinator.archiver.step()
    jobs = (await admin.get("/jobs")).json()["jobs"]
    kept = sorted(job["name"] for job in jobs)
    assert kept == ["needed", "open", "reopened", "waiting", "young"]
    await cancel(admin, "waiting")
    clock.advance(31 * DAY)
    await server.coordinator.archiver.step()
    jobs = (await admin.get("/jobs")).json()["jobs"]
    assert sorted(job["name"] for job in jobs) == ["open", "reopened", "waiting", "young"]


async def test_archiving_interrupted_at_any_commit_is_finished_by_the_next_round(
    server: Server, admin: httpx.AsyncClient, clock: Clock, store: CutOff
) -> None:
    async with a_worker(server) as worker:
        job_id = await worked_on(admin, worker)
    clock.advance(91 * DAY)
    archiver, janitor = server.coordinator.archiver, server.coordinator.janitor
    for commits in range(20):
        store.commits_left = commits
        try:
            await archiver.step()
            await janitor.step()
        except Unavailable:
            assert (await store.job(job_id) is None) == (
                await store.record(ArchivedJob, job_id) is not None
            )
            store.commits_left = None
            if await store.job(job_id) is not None:
                assert (await store.specs([job_id])) != {}
                assert len(await store.events(job_id)) > 3
                assert len(await store.records(Artifact)) == 1
            clock.advance(timedelta(hours=2))
            await janitor.step()
        else:
            break
    store.commits_left = None
    assert await store.job(job_id) is None
    assert lines((await admin.get(f"/archive/{job_id}")).content)
    assert list(await store.records(OrphanBlob)) == []
    assert sorted(path.name for path in server.blobs.iterdir() if any(path.rglob("*.gz"))) == [
        "archive"
    ]


async def test_archive_round_is_bounded_and_continued_by_the_next(
    server: Server, admin: httpx.AsyncClient, clock: Clock
) -> None:
    for number in range(JOBS_PER_STEP + 5):
        await submit(admin, f"job-{number}")
        await cancel(admin, f"job-{number}")
    clock.advance(91 * DAY)
    await server.coordinator.archiver.step()
    assert len((await admin.get("/jobs")).json()["jobs"]) == 5
    await server.coordinator.archiver.step()
    assert (await admin.get("/jobs")).json()["jobs"] == []
    first = (await admin.get("/archive", params={"limit": 100})).json()
    rest = (
        await admin.get("/archive", params={"limit": 100, "cursor": first["nextCursor"]})
    ).json()
    assert (len(first["jobs"]), len(rest["jobs"]), rest["nextCursor"]) == (100, 5, None)


def a_coordinator(store: MemoryStore, blobs: Blobs, clock: Clock, **settings: Any) -> Coordinator:  # noqa: ANN401
    return Coordinator(
        store,
        LocalDispatch(),
        blobs,
        clock,
        RandomIds(),
        settings=replace(CoordinatorSettings(coordinator_id="other"), **settings),
        builtin_profiles=shipped(),
    )


async def test_deletion_instead_of_archiving_leaves_nothing(
    server: Server, admin: httpx.AsyncClient, clock: Clock, store: CutOff
) -> None:
    async with a_worker(server) as worker:
        job_id = await worked_on(admin, worker)
    clock.advance(2 * DAY)
    blobs = server.coordinator.archives._blobs  # noqa: SLF001 - the same home, for another
    other = a_coordinator(store, blobs, clock, retention=DAY, archive_finished=False)
    await other.archiver.step()
    await other.janitor.step()
    assert (await admin.get(f"/jobs/{job_id}")).json()["code"] == "not_found"
    assert (await admin.get("/archive")).json()["jobs"] == []
    assert [path for path in server.blobs.rglob("*") if path.is_file()] == []
    result = (await admin.get("/audit")).json()["events"]
    assert [each["data"]["jobId"] for each in result if each["type"] == "job_deleted"] == [job_id]


async def test_archive_commands_list_and_show_jobs(
    server: Server, admin: httpx.AsyncClient, clock: Clock, tmp_path: Path
) -> None:
    shell = Shell(
        tmp_path,
        {
            "AQ_FLEET_API": server.url,
            "AQ_FLEET_TOKEN": server.admin_token,
            "AQ_PRODUCT_ID": "notes",
        },
    )
    empty = await asyncio.to_thread(shell.aq, "archive", "list")
    assert (empty.code, empty.err) == (0, "the archive is empty\n")
    job_id = await submit(admin, "report")
    await cancel(admin, job_id)
    clock.advance(91 * DAY)
    await server.coordinator.archiver.step()
    listed = await asyncio.to_thread(shell.aq, "archive", "list")
    assert listed.out.splitlines()[1].split()[:2] == [job_id, "cancelled"]
    shown = await asyncio.to_thread(shell.aq, "archive", "show", job_id)
    assert json.loads(shown.out.splitlines()[1])["job"]["name"] == "report"
    gone = await asyncio.to_thread(shell.aq, "show", job_id)
    assert gone.code == 3
    assert f"aq archive show {job_id}" in gone.err
    none = await asyncio.to_thread(shell.aq, "archive", "show", "nobody")
    assert none.code == 3


@pytest.mark.service
async def test_archive_works_on_s3(s3: str, tmp_path: Path, clock: Clock) -> None:
    blobs = seaweedfs.blobs(s3, f"test/{tmp_path.name}-{id(clock)}")
    async with a_server(tmp_path, clock=clock, blobs=blobs) as server, server.client() as admin:
        async with a_worker(server) as worker:
            job_id = await worked_on(admin, worker)
        clock.advance(91 * DAY)
        await server.coordinator.archiver.step()
        await server.coordinator.janitor.step()
        assert list(await blobs.sizes("")) == [f"archive/{job_id}/job.jsonl.gz"]
        found = lines((await admin.get(f"/archive/{job_id}")).content)
        assert "".join(result["text"] for kind, result in found if kind == "log") == "Größe\n"
