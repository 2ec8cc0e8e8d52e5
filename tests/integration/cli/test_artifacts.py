"""`aq artifacts` as a process against a real coordinator, and both clients below it."""

import asyncio
import hashlib
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gigafactory.client import artifacts
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.client.transport.problems import ConnectionBroken, Unreachable
from gigafactory.client.transport.sync_client import Client
from gigafactory.client.transport.upload import hash_file, media_type_of
from gigafactory.domain.errors import Invalid, NotFound, TooLarge
from gigafactory.wire.files import ArtifactView
from tests.integration.client.test_clients import Scripted, scripted
from tests.services.aq import Served, Shell, serving

JOB = "---\nname: report\n---\n# Report\n"
LIMIT = 6_000_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def served(home: Path) -> Iterator[Served]:
    with serving(Shell(home, {"AQ_LIMITS_ARTIFACT_BYTES": str(LIMIT)})) as coordinator:
        yield coordinator


@pytest.fixture
def product() -> str:
    return f"p-{uuid.uuid4().hex}"


@pytest.fixture
def shell(served: Served, home: Path, tmp_path: Path, product: str) -> Shell:
    """A terminal of the coordinator's owner, in a separate product with a job."""
    made = Shell(tmp_path, {"XDG_DATA_HOME": str(home / "share"), "AQ_PRODUCT_ID": product})
    (tmp_path / "report.md").write_text(JOB)
    assert made.aq("submit", "report.md").code == 0
    return made


def added(shell: Shell, name: str, data: bytes) -> dict[str, Any]:
    (shell.folder / name).write_bytes(data)
    ran = shell.aq("artifacts", "report", "--add", name, "--json")
    assert ran.code == 0, ran.err
    result: Any = ran.json()
    (shell.folder / name).unlink()
    return dict(result)


def test_job_without_artifacts_says_so(shell: Shell) -> None:
    ran = shell.aq("artifacts", "report")
    assert (ran.code, ran.out) == (0, "")
    assert "has no artifacts" in ran.err
    assert shell.aq("artifacts", "report", "--json").json() == {"artifacts": []}
    assert shell.aq("artifacts", "none").code == 3


def test_artifacts_are_listed_and_downloaded(shell: Shell) -> None:
    data = bytes(range(256)) * 100
    added(shell, "page.html", b"<h1>one</h1>\n")
    added(shell, "data.bin", data)
    assert "page.html (13 B), data.bin (26 kB)" in shell.aq("show", "report").out
    listed = shell.aq("artifacts", "report").out.splitlines()
    assert listed[0].split() == ["ID", "SIZE", "TYPE", "AGE", "NAME"]
    assert "13 B" in listed[1]
    assert "text/html" in listed[1]
    assert "26 kB" in listed[2]
    ran = shell.aq("artifacts", "report", "--get", "data.bin")
    assert (ran.code, ran.out) == (0, "data.bin\n"), ran.err
    assert (shell.folder / "data.bin").read_bytes() == data
    again = shell.aq("artifacts", "report", "--get", "data.bin")
    assert again.code == 4
    assert "already exists" in again.err
    result: Any = shell.aq("artifacts", "report", "--get", "data.bin", "-o", "x", "--json").json()
    assert result == {"file": "x", "sha256": hashlib.sha256(data).hexdigest()}
    assert (shell.folder / "x").read_bytes() == data
    assert shell.aq("artifacts", "report", "--get", "page.html", "-o", "-").out == "<h1>one</h1>\n"
    assert [path.name for path in shell.folder.glob(".*.part")] == []


def test_name_selects_the_newest_artifact_and_id_an_exact_one(shell: Shell) -> None:
    first = added(shell, "a.txt", b"first")
    added(shell, "a.txt", b"second")
    fetch = ("artifacts", "report", "-o", "-", "--get")
    assert shell.aq(*fetch, "a.txt").out == "second"
    assert shell.aq(*fetch, first["id"]).out == "first"
    assert shell.aq("artifacts", "report", "--delete", "a.txt").code == 0
    assert shell.aq(*fetch, "a.txt").out == "first"
    missing = shell.aq(*fetch, "b.txt")
    assert missing.code == 3
    assert "the job has a.txt" in missing.err
    items = [line.split()[2] for line in shell.aq("events", "report").out.splitlines()]
    assert items == ["submitted", "artifact_added", "artifact_added", "artifact_deleted"]


def test_link_downloads_an_artifact_without_a_token(shell: Shell) -> None:
    added(shell, "a.txt", b"for you")
    link = shell.aq("artifacts", "report", "--link", "a.txt").out.strip()
    with urllib.request.urlopen(link) as answer:  # noqa: S310 - our own coordinator's address
        assert answer.read() == b"for you"


def test_unwritable_output_file_is_reported(shell: Shell) -> None:
    added(shell, "a.txt", b"x")
    ran = shell.aq("artifacts", "report", "--get", "a.txt", "-o", "none/a.txt")
    assert ran.code == 1
    assert "cannot be written" in ran.err


def test_conflicting_options_are_rejected(shell: Shell) -> None:
    both = shell.aq("artifacts", "report", "--get", "a", "--delete", "a")
    assert both.code == 2
    assert "use only one of" in both.err
    assert shell.aq("artifacts", "report", "-o", "x").code == 2
    assert shell.aq("artifacts", "report", "--add", "none").code == 2


class Either:
    """The sync or the async client behind one interface."""

    def __init__(self, kind: str, url: str, token: str | None, product: str | None) -> None:
        self._kind = kind
        self._where = (url, token)
        self._product = product

    def add(self, file: Path, name: str) -> ArtifactView:
        call = artifacts.add("report", hash_file(file), name=name, media_type=media_type_of(name))
        if self._kind == "sync":
            with Client(*self._where, product=self._product) as client:
                return client.send(call)

        async def ask() -> ArtifactView:
            async with AsyncClient(*self._where, product=self._product) as client:
                return await client.send(call)

        return asyncio.run(ask())

    def read(self, artifact: str) -> list[bytes]:
        call = artifacts.content(artifact)
        if self._kind == "sync":
            with Client(*self._where, product=self._product) as client:
                return list(client.pieces(call))

        async def ask() -> list[bytes]:
            async with AsyncClient(*self._where, product=self._product) as client:
                return [piece async for piece in client.pieces(call)]

        return asyncio.run(ask())


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def client(kind: str, served: Served, product: str, shell: Shell) -> Either:
    return Either(kind, served.url, served.token, product)


@pytest.mark.parametrize("size", [0, 1, 5_000_000])
def test_artifact_round_trips_in_chunks(client: Either, tmp_path: Path, size: int) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"x" * size)
    made = client.add(file, "deep/ü.bin")
    assert (made.size, made.name) == (size, "deep/ü.bin")
    pieces = client.read(made.id)
    assert b"".join(pieces) == file.read_bytes()
    assert max(map(len, pieces), default=0) < 1_000_000


def test_rejected_artifact_raises_its_domain_error(client: Either, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"x" * (LIMIT + 1))
    with pytest.raises(TooLarge, match=f"at most {LIMIT} bytes"):
        client.add(file, "x")
    file.write_bytes(b"x")
    with pytest.raises(Invalid, match="such as reports"):
        client.add(file, "../x")
    with pytest.raises(NotFound):
        client.read("none")


def test_interrupted_download_raises_connection_broken(kind: str) -> None:
    def half(handler: Scripted) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "10")
        handler.end_headers()
        handler.wfile.write(b"half")
        handler.close_connection = True

    with scripted(half) as (url, _), pytest.raises(ConnectionBroken):
        Either(kind, url, None, None).read("x")
    with pytest.raises(Unreachable):
        Either(kind, "http://127.0.0.1:1", None, None).read("x")
