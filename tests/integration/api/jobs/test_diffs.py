"""Diffs over HTTP: the newest one of a run is kept, and invalid ones are refused."""

import json

import httpx
import pytest

from tests.integration.api.jobs.test_artifacts import nothing_stays, running, send
from tests.support.api_server import Server, Worker

pytestmark = pytest.mark.asyncio(loop_scope="module")


DIFF = {
    "base": "0" * 40,
    "commit": "1" * 40,
    "filesChanged": 1,
    "linesAdded": 1,
    "linesDeleted": 0,
    "text": "diff --git a/x b/x\n",
}


def diff_at(commit: str) -> bytes:
    return json.dumps(DIFF | {"commit": commit}).encode()


async def test_only_the_newest_diff_of_a_run_is_kept_and_not_as_an_artifact(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    as_diff = {"name": "diff.json", "mediaType": "application/json", "purpose": "diff"}
    for commit in ("aaa", "aaa", "bbb"):
        sent = await send(worker.http, job_id, diff_at(commit), **as_diff)
        assert sent.status_code == 201, sent.text
    shown = await admin.get(f"/jobs/{job_id}/diff", headers={"accept": "application/json"})
    assert shown.json()["commit"] == "bbb"
    assert (await admin.get(f"/jobs/{job_id}/artifacts")).json() == {"artifacts": []}
    result = (await admin.get(f"/jobs/{job_id}/events")).json()["events"]
    assert [event["type"] for event in result].count("diff_added") == 2
    job = await server.coordinator.store.job(job_id)
    assert job is not None
    assert len(await server.coordinator.artifacts.list_all(job)) == 1


@pytest.mark.parametrize(
    ("data", "query", "field"),
    [
        (b"diff --git a/x b/x\n", {}, "body"),
        (b'{"base": 1}', {}, "body"),
        (b"{}", {"leaseEpoch": None}, "leaseEpoch"),
        (b"{}", {"purpose": "else"}, "purpose"),
    ],
)
async def test_invalid_diff_is_rejected_and_nothing_is_stored(
    server: Server,
    admin: httpx.AsyncClient,
    worker: Worker,
    data: bytes,
    query: dict[str, str | None],
    field: str,
) -> None:
    job_id = await running(admin, worker)
    http = worker.http if "leaseEpoch" not in query else admin
    sent = await send(http, job_id, data, **{"purpose": "diff"} | query)
    assert (sent.status_code, sent.json()["faults"][0]["field"]) == (422, field)
    await nothing_stays(server, admin, job_id)
    assert (await admin.get(f"/jobs/{job_id}/diff")).status_code == 404


async def test_a_diff_in_broken_utf_8_is_refused(admin: httpx.AsyncClient, worker: Worker) -> None:
    job_id = await running(admin, worker)
    sent = await send(worker.http, job_id, diff_at("x").replace(b"x", b"\xff"), purpose="diff")
    assert (sent.status_code, sent.json()["code"]) == (422, "invalid")


@pytest.mark.parametrize("commit", ["a\r\nset-cookie: x=y", "€", "\x00", '"'])
async def test_whatever_a_factory_calls_its_commit_the_diff_is_answered(
    admin: httpx.AsyncClient, worker: Worker, commit: str
) -> None:
    job_id = await running(admin, worker)
    as_diff = {"name": "diff.json", "mediaType": "application/json", "purpose": "diff"}
    assert (await send(worker.http, job_id, diff_at(commit), **as_diff)).status_code == 201
    shown = await admin.get(f"/jobs/{job_id}/diff")
    assert shown.status_code == 200
    assert "set-cookie" not in shown.headers
    assert shown.headers["etag"].isascii()
