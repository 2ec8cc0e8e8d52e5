"""Artifacts over HTTP: uploads are fenced and verified, downloads are safe for browsers."""

import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from gigafactory.domain.job.artifact import OrphanBlob
from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.tenancy.access import Role
from tests.support.api_server import Server, Worker, a_server, a_worker
from tests.support.factory.local_fleet import Clock
from tests.support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

HTML = b"<h1>92 % covered</h1><script>alert(1)</script>\n"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def running(admin: httpx.AsyncClient, worker: Worker) -> str:
    answer = await admin.post("/jobs", json={"manifest": {"name": "a"}, "body": "Do it."})
    await worker.granted()
    job_id: str = answer.json()["id"]
    return job_id


async def send(
    http: httpx.AsyncClient, job_id: str, data: bytes = HTML, **query: str | int | None
) -> httpx.Response:
    """Upload a file like a worker, with these changes of its query; return the response."""
    usual: dict[str, str | int | None] = {
        "name": "reports/coverage.html",
        "sha256": digest(data),
        "mediaType": "text/html",
        "leaseEpoch": 1,
    }
    params = {name: value for name, value in (usual | query).items() if value is not None}
    return await http.post(f"/jobs/{job_id}/artifacts", params=params, content=data)


def artifact_blobs(server: Server, job_id: str) -> list[str]:
    """Return the names of a job's artifact blobs, incomplete ones too."""
    folder = server.blobs / "artifacts" / job_id
    return sorted(path.name for path in folder.glob("*")) if folder.exists() else []


async def nothing_stays(server: Server, admin: httpx.AsyncClient, job_id: str) -> None:
    """Check that a job has no artifact: no record, event, blob or orphan record."""
    assert (await admin.get(f"/jobs/{job_id}/artifacts")).json() == {"artifacts": []}
    result = (await admin.get(f"/jobs/{job_id}/events")).json()["events"]
    assert "artifact_added" not in [event["type"] for event in result]
    assert artifact_blobs(server, job_id) == []
    notes = await server.coordinator.store.records(OrphanBlob, prefix=f"artifacts/{job_id}/")
    assert list(notes) == []


async def test_uploaded_artifact_is_stored_listed_and_read(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    answer = await send(worker.http, job_id, size=len(HTML))
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert made["id"].startswith(f"{job_id}.")
    assert (made["name"], made["size"], made["runId"]) == (
        "reports/coverage.html",
        len(HTML),
        f"{job_id}.1",
    )
    assert (await admin.get("/jobs/a/artifacts")).json() == {"artifacts": [made]}
    read = await admin.get(f"/artifacts/{made['id']}")
    assert (read.status_code, read.content) == (200, HTML)
    event = (await admin.get(f"/jobs/{job_id}/events")).json()["events"][-1]
    assert (event["type"], event["actor"]) == ("artifact_added", f"factory:{worker.id}")
    assert event["data"]["artifactId"] == made["id"]
    notes = await server.coordinator.store.records(OrphanBlob, prefix=f"artifacts/{job_id}/")
    assert list(notes) == []


async def test_html_artifact_is_served_as_an_attachment_in_a_sandbox(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    made = (await send(worker.http, job_id, name='a/"ü";x.html')).json()
    headers = (await admin.get(f"/artifacts/{made['id']}")).headers
    assert headers["content-type"] == "text/html"
    assert headers["content-disposition"] == "attachment; filename*=UTF-8''%22%C3%BC%22%3Bx.html"
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "sandbox" in headers["content-security-policy"]
    assert headers["etag"] == f'"{digest(HTML)}"'
    assert headers["repr-digest"].startswith("sha-256=:")


async def test_same_artifact_uploaded_again_counts_once(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    first, again = await send(worker.http, job_id), await send(worker.http, job_id)
    assert first.json() == again.json()
    assert len((await admin.get("/jobs/a/artifacts")).json()["artifacts"]) == 1
    assert len(artifact_blobs(server, job_id)) == 1


async def test_different_content_under_one_name_is_another_artifact(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    one, two = await send(worker.http, job_id), await send(worker.http, job_id, b"two")
    listed = (await admin.get("/jobs/a/artifacts")).json()["artifacts"]
    assert [each["id"] for each in listed] == [one.json()["id"], two.json()["id"]]


async def test_large_artifact_is_streamed_both_ways(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    data = bytes(range(256)) * 20_000

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(data), 100_000):
            yield data[at : at + 100_000]

    params: dict[str, str | int] = {"name": "big.bin", "sha256": digest(data), "leaseEpoch": 1}
    answer = await worker.http.post(f"/jobs/{job_id}/artifacts", params=params, content=pieces())
    assert answer.json()["size"] == len(data)
    assert (await admin.get(f"/artifacts/{answer.json()['id']}")).content == data


async def test_empty_file_is_a_valid_artifact(admin: httpx.AsyncClient, worker: Worker) -> None:
    job_id = await running(admin, worker)
    made = (await send(worker.http, job_id, b"")).json()
    read = await admin.get(f"/artifacts/{made['id']}")
    assert (made["size"], read.status_code, read.content) == (0, 200, b"")


async def test_range_of_an_artifact_is_read(admin: httpx.AsyncClient, worker: Worker) -> None:
    job_id = await running(admin, worker)
    path = f"/artifacts/{(await send(worker.http, job_id, b'0123456789')).json()['id']}"
    part = await admin.get(path, headers={"range": "bytes=2-4"})
    assert (part.status_code, part.content) == (206, b"234")
    assert part.headers["content-range"] == "bytes 2-4/10"
    same = {"range": "bytes=-3", "if-range": f'"{digest(b"0123456789")}"'}
    assert (await admin.get(path, headers=same)).content == b"789"
    other = {"range": "bytes=-3", "if-range": '"0000"'}
    assert (await admin.get(path, headers=other)).content == b"0123456789"
    beyond = await admin.get(path, headers={"range": "bytes=10-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */10")


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"sha256": "0" * 64}, 422, "invalid"),
        ({"size": 3}, 422, "invalid"),
        ({"sha256": "abc"}, 422, "invalid"),
        ({"sha256": None}, 422, "invalid"),
        ({"name": None}, 422, "invalid"),
        ({"name": "../../x"}, 422, "invalid"),
        ({"name": "/etc/passwd"}, 422, "invalid"),
        ({"name": "a\\..\\b"}, 422, "invalid"),
        ({"name": "a\0b"}, 422, "invalid"),
        ({"name": "a\x1b]52;c;x\x07"}, 422, "invalid"),
        ({"name": "x" * 10_000}, 422, "invalid"),
        ({"mediaType": "text/html\r\nset-cookie: a=b"}, 422, "invalid"),
        ({"mediaType": "html"}, 422, "invalid"),
        ({"size": -1}, 422, "invalid"),
        ({"size": 1 << 39}, 413, "too_large"),
        ({"leaseEpoch": 2}, 409, "fenced"),
        ({"leaseEpoch": 0}, 409, "fenced"),
        ({"leaseEpoch": None}, 422, "invalid"),
        ({"extra": 1}, 422, "invalid"),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_invalid_artifact_is_rejected_and_nothing_is_stored(
    server: Server,
    admin: httpx.AsyncClient,
    worker: Worker,
    query: dict[str, Any],
    status: int,
    code: str,
) -> None:
    job_id = await running(admin, worker)
    answer = await send(worker.http, job_id, **query)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    await nothing_stays(server, admin, job_id)


async def test_wrong_size_and_digest_are_rejected_with_the_actual_digest(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    result = (await send(worker.http, job_id, sha256="0" * 64, size=1)).json()
    assert [fault["field"] for fault in result["faults"]] == ["size", "sha256"]
    assert digest(HTML) in result["detail"]


async def test_interrupted_upload_leaves_nothing(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)

    async def noted() -> bool:
        store = server.coordinator.store
        return bool(await store.records(OrphanBlob, prefix=f"artifacts/{job_id}/"))

    async def forgotten() -> bool:
        return not await noted()

    async def pieces() -> AsyncIterator[bytes]:
        yield HTML
        await until(noted)
        raise ConnectionError("the cable was pulled")

    params: dict[str, str | int] = {"name": "x", "sha256": digest(HTML), "leaseEpoch": 1}
    with pytest.raises(ConnectionError):
        await worker.http.post(f"/jobs/{job_id}/artifacts", params=params, content=pieces())
    await until(forgotten)
    await nothing_stays(server, admin, job_id)


async def test_factory_without_the_lease_cannot_upload(
    server: Server, admin: httpx.AsyncClient, worker: Worker, product: str
) -> None:
    job_id = await running(admin, worker)
    async with a_worker(server, f"other-{product}", products=[product]) as other:
        assert (await send(other.http, job_id)).status_code == 404
    async with a_worker(server, f"far-{product}", products=["elsewhere"]) as far:
        assert (await send(far.http, job_id)).status_code == 404
    await nothing_stays(server, admin, job_id)


async def test_upload_after_the_lease_ended_is_fenced(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    await worker.http.post(
        "/fail", json={"jobId": job_id, "leaseEpoch": 1, "result": "crash", "reason": "x"}
    )
    assert (await send(worker.http, job_id)).json()["code"] == "fenced"
    await nothing_stays(server, admin, job_id)


@pytest.mark.parametrize(
    ("role", "may"),
    [
        (Role.VIEWER, False),
        (Role.REVIEWER, False),
        (Role.OPERATOR, True),
        (Role.ADMIN, True),
    ],
)
async def test_only_operators_add_and_delete_artifacts(
    server: Server, admin: httpx.AsyncClient, worker: Worker, product: str, role: Role, *, may: bool
) -> None:
    job_id = await running(admin, worker)
    made = (await send(worker.http, job_id)).json()
    token = await server.token("ann", role, products=[product])
    async with server.client(token, product=product) as person:
        assert (await person.get(f"/artifacts/{made['id']}")).content == HTML
        added = await send(person, "a", b"by hand", name="notes.txt", leaseEpoch=None)
        assert added.status_code == (201 if may else 403)
        gone = await person.delete(f"/artifacts/{made['id']}")
        assert gone.status_code == (204 if may else 403)
        if may:
            assert added.json()["runId"] is None
            assert (await person.get(f"/artifacts/{made['id']}")).status_code == 404
            result = (await person.get("/jobs/a/events")).json()["events"][-1]
            assert (result["type"], result["actor"]) == ("artifact_deleted", "user:ann")
            assert artifact_blobs(server, job_id) == [added.json()["id"].rpartition(".")[2]]


async def test_user_token_cannot_upload_under_a_lease(
    admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    assert (await send(admin, job_id)).status_code == 403


async def test_an_artifact_of_another_product_is_not_found(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    made = (await send(worker.http, job_id)).json()
    async with server.client(await server.token("eve", products=["eve"]), product=None) as eve:
        assert (await eve.get(f"/jobs/{job_id}/artifacts")).status_code == 404
        assert (await eve.get(f"/artifacts/{made['id']}")).status_code == 404
        assert (await eve.delete(f"/artifacts/{made['id']}")).status_code == 404
        assert (await eve.post(f"/artifacts/{made['id']}/links")).status_code == 404
        assert (await send(eve, job_id, leaseEpoch=None)).status_code == 404


async def test_corrupted_artifact_is_never_served_completely(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    made = (await send(worker.http, job_id)).json()
    (blob,) = (server.blobs / "artifacts" / job_id).iterdir()
    blob.write_bytes(HTML.replace(b"92", b"93"))
    with pytest.raises(httpx.RemoteProtocolError):
        await admin.get(f"/artifacts/{made['id']}")
    blob.unlink()
    assert (await admin.get(f"/artifacts/{made['id']}")).status_code == 404


async def test_a_link_opens_one_artifact_without_a_token(
    server: Server, admin: httpx.AsyncClient, worker: Worker
) -> None:
    job_id = await running(admin, worker)
    made, other = [(await send(worker.http, job_id, data)).json() for data in (HTML, b"other")]
    answer = await admin.post(f"/artifacts/{made['id']}/links", json={"expiresIn": 60})
    assert answer.status_code == 201, answer.text
    path = answer.json()["path"]
    async with httpx.AsyncClient(base_url=server.url) as anybody:
        assert (await anybody.get(path)).content == HTML
        assert (await anybody.get(path.replace(made["id"], other["id"]))).status_code == 401
        assert (await anybody.get(path + "x")).status_code == 401
        assert (await anybody.get(path.partition("?")[0])).status_code == 401
    audit = (await admin.get("/audit")).json()["events"][0]
    assert (audit["type"], audit["data"]["artifactId"]) == ("link_made", made["id"])
    assert path.partition("=")[2] not in str(audit)
    assert (await worker.http.post(f"/artifacts/{made['id']}/links")).status_code == 403
    week = {"expiresIn": 7 * 86_400}
    assert (await admin.post(f"/artifacts/{made['id']}/links", json=week)).status_code == 422


@pytest_asyncio.fixture(loop_scope="module")
async def leaping(tmp_path: Path) -> AsyncIterator[tuple[Server, Clock]]:
    clock = Clock()
    async with a_server(tmp_path, clock=clock) as server:
        yield server, clock


async def test_links_expire_and_end_with_the_token_of_their_creator(
    leaping: tuple[Server, Clock],
) -> None:
    server, clock = leaping
    async with server.client() as admin, a_worker(server) as worker:
        job_id = await running(admin, worker)
        made = (await send(worker.http, job_id)).json()
        token = await server.token("ann", Role.VIEWER)
        async with server.client(token) as ann, httpx.AsyncClient(base_url=server.url) as anybody:
            link = f"/artifacts/{made['id']}/links"
            first = (await ann.post(link)).json()["path"]
            clock.advance(timedelta(minutes=14))
            assert (await anybody.get(first)).status_code == 200
            clock.advance(timedelta(minutes=2))
            assert (await anybody.get(first)).status_code == 401
            second = (await ann.post(link)).json()["path"]
            tokens = (await admin.get("/tokens")).json()["tokens"]
            (hers,) = [each["id"] for each in tokens if each["user"] == "ann"]
            await admin.delete(f"/tokens/{hers}")
            assert (await anybody.get(second)).status_code == 401


async def test_janitor_removes_uploads_left_by_a_crash(
    leaping: tuple[Server, Clock],
) -> None:
    server, clock = leaping
    fleet = server.coordinator
    folder = server.blobs / "artifacts" / "job-1"
    folder.mkdir(parents=True)
    now = clock.now()
    for name, file in (("0001", "0001"), ("0002", ".0002.begun"), ("0003", "0003")):
        (folder / file).write_bytes(b"left")
        lasts = timedelta(days=1) if name == "0003" else timedelta(hours=1)
        note = OrphanBlob(key=f"artifacts/job-1/{name}", expires_at=now + lasts)
        await fleet.store.commit(RecordChange(before=None, after=note))
    await fleet.janitor.step()
    assert len(list(folder.iterdir())) == 3, "it may still be on its way"
    clock.advance(timedelta(hours=2))
    await fleet.janitor.step()
    assert [path.name for path in folder.iterdir()] == ["0003"]
    notes = await fleet.store.records(OrphanBlob)
    assert [note.key for note in notes] == ["artifacts/job-1/0003"]
