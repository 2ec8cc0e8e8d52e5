"""Both clients over real HTTP: with a coordinator, and with a misbehaving server."""

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec
import pytest

from gigafactory.client import events as stories
from gigafactory.client import fleet, jobs, submissions, workers
from gigafactory.client import tokens as governance
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.client.transport.call import ApiCall
from gigafactory.client.transport.problems import ConnectionBroken, Unreachable
from gigafactory.client.transport.sse import ServerEvent
from gigafactory.client.transport.sync_client import Client
from gigafactory.domain.errors import Fenced, Forbidden, NotFound, Unauthenticated, Unavailable
from gigafactory.domain.job.job import Stage
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.domain.tenancy.access import Role
from gigafactory.wire.fleet import EngineDoc, HeartbeatDoc
from gigafactory.wire.jobs import JobFilter
from tests.services.answering import answering
from tests.services.aq import Served, Shell, serving

T = TypeVar("T")

PATIENCE = (0.01, 0.01)
GET = ApiCall(method="GET", path="/api/fleet/x", response_type=dict[str, int])


class Either:
    """The sync or the async client behind one interface."""

    def __init__(
        self, kind: str, url: str, token: str | None = None, product: str | None = None
    ) -> None:
        self.kind = kind
        self.url = url
        self.token = token
        self.product = product

    def send(self, call: ApiCall[T]) -> T:
        if self.kind == "sync":
            with self._sync() as client:
                return client.send(call)

        async def ask() -> T:
            async with self._async() as client:
                return await client.send(call)

        return asyncio.run(ask())

    def follow(
        self, call: ApiCall[T], *, count: int, after: str | None = None
    ) -> list[ServerEvent]:
        """Return the first `count` events of a stream."""
        if self.kind == "sync":
            with self._sync() as client:
                stream = client.follow(call, after=after)
                return [next(stream) for _ in range(count)]

        async def ask() -> list[ServerEvent]:
            async with self._async() as client:
                stream = client.follow(call, after=after)
                return [await anext(stream) for _ in range(count)]

        return asyncio.run(ask())

    def _sync(self) -> Client:
        return Client(self.url, self.token, product=self.product, retry_delays=PATIENCE)

    def _async(self) -> AsyncClient:
        return AsyncClient(self.url, self.token, product=self.product, retry_delays=PATIENCE)


Connect = Callable[..., Either]


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Connect:
    return lambda url, *args, **more: Either(request.param, url, *args, **more)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with serving(Shell(folder, {"AQ_STORE": "memory:"})) as coordinator:
        yield coordinator


@pytest.fixture
def client(connect: Connect, served: Served) -> Either:
    """A client with a separate product."""
    return connect(served.url, served.token, product=f"p-{uuid.uuid4().hex}")


def a_job(client: Either, text: str = "---\nname: fix-login\n---\n# Fix the login\n") -> str:
    return client.send(submissions.submit(parse_job_file(text))).id


def test_submitted_job_is_found(client: Either) -> None:
    job_id = a_job(client, "---\nname: fix-login\ntimeout: 1h30m\n---\n# Fix — it\r\n")
    job = client.send(jobs.get("fix-login", include=("manifest", "body", "events")))
    assert job.id == job_id
    assert job.body == "# Fix — it\r\n"
    assert msgspec.json.decode(job.manifest or b"")["timeout"] == "1h30m"
    assert [event.type for event in job.events or ()] == ["submitted"]
    assert [each.id for each in client.send(jobs.find(JobFilter())).jobs] == [job_id]


def test_batch_is_submitted_in_order(client: Either) -> None:
    files = [parse_job_file(f"---\nname: job-{n}\n---\nDo {n}\n") for n in range(3)]
    taken = client.send(submissions.submit_all(files))
    assert [job.name for job in taken.jobs] == ["job-0", "job-1", "job-2"]


def test_error_responses_are_raised_as_domain_errors(client: Either) -> None:
    with pytest.raises(NotFound, match="nothing-here"):
        client.send(jobs.get("nothing-here"))


def test_wrong_token_is_unauthenticated(connect: Connect, served: Served) -> None:
    with pytest.raises(Unauthenticated):
        connect(served.url, "wrong").send(jobs.find(JobFilter()))


def test_viewer_token_can_only_read(client: Either, served: Served) -> None:
    made = client.send(governance.issue_token("ann", Role.VIEWER))
    assert made.secret
    viewer = Either(client.kind, served.url, made.secret, "notes")
    assert viewer.send(jobs.find(JobFilter())).jobs == ()
    with pytest.raises(Forbidden, match="role viewer"):
        a_job(viewer)
    assert client.send(governance.revoke_token(made.id)).revoked_at is not None
    with pytest.raises(Unauthenticated):
        viewer.send(jobs.find(JobFilter()))


def test_client_carries_a_factory_from_enrollment_to_a_fenced_report(
    client: Either, served: Served
) -> None:
    product = client.product or ""
    factory_id = f"f-{product}"
    invited = client.send(fleet.invite([product]))
    member = client.send(fleet.enroll(invited.secret, factory_id))
    factory = Either(client.kind, served.url, member.token)
    heartbeat = HeartbeatDoc(
        factory_id=factory_id, instance_id="one", engines={"claude": EngineDoc()}, slots=1
    )
    heard = factory.send(workers.heartbeat(heartbeat))
    assert heard.settings.lease_ttl_sec == 90
    assert factory.send(workers.claim(factory_id, instance_id="one")) is None
    job_id = a_job(client)
    grant = factory.send(workers.claim(factory_id, instance_id="one", wait_s=10))
    assert grant is not None
    assert grant.job.id == job_id
    epoch = grant.lease_epoch
    factory.send(workers.report(job_id, epoch, {"stage": "building"}))
    asked = client.send(jobs.request_review(job_id, reviewers=["@ann"], comment="look"))
    assert asked.stage is Stage.BUILDING
    assert factory.send(workers.log_chunk(job_id, epoch, 0, b"hello\n")).offset == 6
    assert client.send(stories.log(job_id)) == b"hello\n"
    assert factory.send(workers.renew(job_id, epoch)).lease_epoch == epoch
    shown = client.send(fleet.factory(factory_id))
    assert [job.id for job in shown.jobs or ()] == [job_id]
    client.send(jobs.act(job_id, "cancel", reason="enough"))
    with pytest.raises(Fenced) as fenced:
        factory.send(workers.report(job_id, epoch, {"stage": "review"}))
    assert fenced.value.current == epoch + 1


def test_job_stream_is_followed_from_its_start_or_an_event(client: Either) -> None:
    a_job(client)
    client.send(jobs.act("fix-login", "promote"))
    result = client.follow(stories.job_stream("fix-login"), count=2)
    assert [(sent.event, sent.id) for sent in result] == [("submitted", "1"), ("promoted", "2")]
    late = client.follow(stories.job_stream("fix-login"), count=1, after="1")
    assert [sent.event for sent in late] == ["promoted"]


def test_explanation_decodes_into_a_record(client: Either) -> None:
    a_job(client, "---\nname: fix-login\ncapabilities: [has:time-machine]\n---\nGo\n")
    response = client.send(stories.explanation("fix-login"))
    assert response.stage is Stage.QUEUED
    assert response.answer == "not_yet"
    assert response.summary


def test_an_unreachable_server_is_reported_at_once(connect: Connect) -> None:
    with pytest.raises(Unreachable, match="cannot reach http://127"):
        connect("http://127.0.0.1:1").send(GET)


class Scripted(BaseHTTPRequestHandler):
    """An HTTP handler that answers each request with the next step of a script."""

    protocol_version = "HTTP/1.1"
    script: ClassVar[list[Callable[["Scripted"], None]]] = []
    seen: ClassVar[list[dict[str, str]]] = []

    def do_GET(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.script.pop(0)(self)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_told: object) -> None:
        """Log nothing."""

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def hang_up(self) -> None:
        self.close_connection = True


@contextmanager
def scripted(*script: Callable[[Scripted], None]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Run a server with a script; yield its URL and the headers of the received requests."""
    seen: list[dict[str, str]] = []
    kind = type("Played", (Scripted,), {"script": list(script), "seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def away(handler: Scripted) -> None:
    handler.answer(503, b'{"code": "unavailable", "detail": "the store is away"}')


def fine(handler: Scripted) -> None:
    handler.answer(200, b'{"a": 1}')


def test_lost_response_is_retried_with_the_same_idempotency_key(connect: Connect) -> None:
    call = ApiCall(method="POST", path="/api/fleet/x", response_type=dict[str, int], body=b"{}")
    with scripted(Scripted.hang_up, away, fine) as (url, seen):
        assert connect(url).send(call) == {"a": 1}
    assert len(seen) == 3
    assert len({headers["idempotency-key"] for headers in seen}) == 1


def test_persistent_503_raises_unavailable(connect: Connect) -> None:
    with scripted(away, away, away) as (url, _), pytest.raises(Unavailable, match="is away"):
        connect(url).send(GET)


def stream(*frames: bytes) -> Callable[[Scripted], None]:
    def play(handler: Scripted) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        for each in frames:
            handler.wfile.write(each)
        handler.close_connection = True

    return play


def test_broken_stream_resumes_after_the_last_event(connect: Connect) -> None:
    first = stream(b": hi\n\n", b"id: 1\ndata: a\n\n", b"id: 2\ndata: b\n\nid: 3\nda")
    second = stream(b"id: 3\ndata: c\n\n")
    with scripted(first, Scripted.hang_up, second) as (url, seen):
        result = connect(url).follow(GET, count=3)
    assert [sent.data for sent in result] == ["a", "b", "c"]
    assert [headers.get("last-event-id") for headers in seen] == [None, "2", "2"]


def test_response_that_cannot_be_decoded_is_a_broken_connection() -> None:
    # A proxy cut it off, or a captive portal took its place.
    cut = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\ncut!"

    async def ask(url: str) -> None:
        async with AsyncClient(url, retry_delays=PATIENCE) as client:
            await client.send(GET)

    with answering(cut) as broken, pytest.raises(ConnectionBroken):
        asyncio.run(ask(broken.url))


def test_refused_stream_raises_the_reason(connect: Connect, tmp_path: Path) -> None:
    def refuse(handler: Scripted) -> None:
        handler.answer(401, b'{"code": "unauthenticated", "detail": "who are you?"}')

    with scripted(refuse) as (url, _), pytest.raises(Unauthenticated, match="who are you"):
        connect(url).follow(GET, count=1)
