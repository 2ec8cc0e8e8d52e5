"""Logs and artifacts of a whole coordinator on files, S3 and Azure Blob Storage."""

import hashlib
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from gigafactory.blobs.files import FileBlobs
from gigafactory.coordinator.core.ports import Blobs
from tests.services import azurite, seaweedfs
from tests.services.aq import Shell, serving
from tests.support.api_server import Server, Worker, a_server, a_worker

HOMES = ("files", "s3", "azure")


@pytest.fixture(
    params=[
        pytest.param(home, marks=() if home == "files" else pytest.mark.service) for home in HOMES
    ]
)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    """One of the blob stores; the test runs once on each."""
    prefix = uuid.uuid4().hex
    if request.param == "files":
        return FileBlobs(tmp_path / "blobs")
    address: str = request.getfixturevalue(request.param)
    of_service = seaweedfs.blobs if request.param == "s3" else azurite.blobs
    return of_service(address, prefix)


@pytest.fixture
async def server(home: Blobs, tmp_path: Path) -> AsyncIterator[Server]:
    async with a_server(tmp_path, blobs=home) as running:
        yield running


@pytest.fixture
async def admin(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as client:
        yield client


@pytest.fixture
async def worker(server: Server) -> AsyncIterator[Worker]:
    async with a_worker(server) as factory:
        yield factory


@pytest.fixture
async def job_id(admin: httpx.AsyncClient, worker: Worker) -> str:
    """The id of a job that the worker runs."""
    answer = await admin.post("/jobs", json={"manifest": {"name": "a"}, "body": "Do it."})
    await worker.granted()
    made: str = answer.json()["id"]
    return made


async def log(worker: Worker, job_id: str, offset: int, data: bytes) -> httpx.Response:
    where = {"offset": offset, "leaseEpoch": 1}
    return await worker.http.post(f"/jobs/{job_id}/logs", params=where, content=data)


async def send(http: httpx.AsyncClient, job_id: str, data: bytes, claimed: str) -> httpx.Response:
    said: dict[str, str | int] = {"name": "out.bin", "sha256": claimed, "leaseEpoch": 1}
    return await http.post(f"/jobs/{job_id}/artifacts", params=said, content=data)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_log_is_uploaded_in_chunks_and_read_by_range(
    admin: httpx.AsyncClient, worker: Worker, job_id: str
) -> None:
    sent = b""
    for number in range(12):
        chunk = f"line {number}\n".encode() * (30_000 if number % 4 == 1 else 1)
        answer = await log(worker, job_id, len(sent), chunk)
        sent += chunk
        assert answer.json()["offset"] == len(sent), answer.text
    again = await log(worker, job_id, len(sent) - 4, sent[-4:] + b"more\n")
    sent += b"more\n"
    assert again.json()["offset"] == len(sent)
    gap = await log(worker, job_id, len(sent) + 1, b"x")
    assert gap.status_code == 409
    assert (await admin.get("/jobs/a/logs")).content == sent
    part = await admin.get("/jobs/a/logs", headers={"range": "bytes=200000-200099"})
    assert (part.status_code, part.content) == (206, sent[200_000:200_100])
    last = await admin.get("/jobs/a/logs", headers={"range": "bytes=-9"})
    assert last.content == sent[-9:]


async def test_artifact_is_stored_in_parts_read_by_range_and_deleted(
    admin: httpx.AsyncClient, worker: Worker, job_id: str, home: Blobs
) -> None:
    data = bytes(range(256)) * 40_000
    made = (await send(worker.http, job_id, data, digest(data))).json()
    read = await admin.get(f"/artifacts/{made['id']}")
    assert (read.status_code, digest(read.content)) == (200, made["sha256"])
    part = await admin.get(f"/artifacts/{made['id']}", headers={"range": "bytes=9999990-9999999"})
    assert (part.status_code, part.content) == (206, data[9_999_990:10_000_000])
    assert (await admin.delete(f"/artifacts/{made['id']}")).status_code == 204
    assert await home.sizes("artifacts/") == {}


async def test_artifact_with_a_wrong_hash_leaves_nothing(
    admin: httpx.AsyncClient, worker: Worker, job_id: str, home: Blobs
) -> None:
    for data in (b"short", b"x" * (9 << 20)):
        answer = await send(worker.http, job_id, data, digest(b"something else"))
        assert answer.status_code == 422, answer.text
    assert (await admin.get("/jobs/a/artifacts")).json() == {"artifacts": []}
    assert await home.sizes("artifacts/") == {}


async def test_tampered_artifact_is_never_served_completely(
    admin: httpx.AsyncClient, worker: Worker, job_id: str, home: Blobs
) -> None:
    made = (await send(worker.http, job_id, b"as it was", digest(b"as it was"))).json()
    [key] = await home.sizes("artifacts/")
    await home.delete(key)
    await home.put_new(key, b"as it isn't"[:9])
    with pytest.raises(httpx.RemoteProtocolError):
        await admin.get(f"/artifacts/{made['id']}")


async def test_link_downloads_an_artifact_without_a_token(
    server: Server, admin: httpx.AsyncClient, worker: Worker, job_id: str
) -> None:
    made = (await send(worker.http, job_id, b"<h1>92 %</h1>", digest(b"<h1>92 %</h1>"))).json()
    link = (await admin.post(f"/artifacts/{made['id']}/links", json={"expiresIn": 60})).json()
    async with httpx.AsyncClient(base_url=server.url) as stranger:
        assert (await stranger.get(link["path"])).content == b"<h1>92 %</h1>"
        assert (await stranger.get(link["path"] + "x")).status_code == 401


S3 = (seaweedfs.environment, f"s3://{seaweedfs.BUCKET}")
AZURE = (azurite.environment, f"az://{azurite.CONTAINER}")


@pytest.mark.service
@pytest.mark.parametrize(("service", "of"), [("s3", S3), ("azure", AZURE)], ids=["s3", "azure"])
def test_serve_stores_blobs_at_the_configured_address(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    service: str,
    of: tuple[Callable[[str], dict[str, str]], str],
) -> None:
    environment, url = of
    elsewhere = environment(request.getfixturevalue(service))
    where = {"AQ_BLOBS": f"{url}/{uuid.uuid4().hex}/deeper"}
    (tmp_path / "report.md").write_text("---\nname: report\n---\n# Report\n")
    (tmp_path / "page.html").write_text("<h1>one</h1>\n")
    with serving(Shell(tmp_path, elsewhere | where)):
        shell = Shell(tmp_path, {"AQ_PRODUCT_ID": "notes"})
        assert shell.aq("submit", "report.md").code == 0
        assert shell.aq("artifacts", "report", "--add", "page.html").code == 0
        got = shell.aq("artifacts", "report", "--get", "page.html", "-o", "-")
        assert got.out == "<h1>one</h1>\n", got.err
        link = shell.aq("artifacts", "report", "--link", "page.html").out.split()[0]
        with urllib.request.urlopen(link) as opened:  # noqa: S310 - the coordinator's own address
            assert opened.read() == b"<h1>one</h1>\n"
    assert not list(tmp_path.rglob("artifacts"))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://me:hunter2@bucket/x", "must contain only scheme, bucket and prefix"),
        ("s3:///x", "names no bucket or container"),
        ("az://box/a//b", "found the prefix 'a//b'"),
        ("ftp://there", "found 'ftp'; expected file:///…, s3://bucket/prefix or az://"),
    ],
)
def test_invalid_blob_address_is_rejected(tmp_path: Path, url: str, said: str) -> None:
    ran = Shell(tmp_path).aq("serve", "--port", "0", AQ_BLOBS=url)
    assert ran.code != 0
    assert said in ran.err
    assert "hunter2" not in ran.err


@pytest.mark.service
def test_bucket_without_access_is_reported_at_startup(s3: str, tmp_path: Path) -> None:
    wrong = seaweedfs.environment(s3) | {"AWS_SECRET_ACCESS_KEY": "wrong"}
    ran = Shell(tmp_path, wrong).aq("serve", "--port", "0", AQ_BLOBS="s3://fleet/x")
    assert ran.code != 0
    assert "s3://fleet/x is unavailable: 403" in ran.err
