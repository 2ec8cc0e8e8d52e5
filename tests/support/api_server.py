"""A coordinator behind real HTTP on a free loopback port, in the test's event loop."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import httpx
from litestar import Litestar

from gigafactory.api.http.hosts import ServedHosts
from gigafactory.blobs.files import FileBlobs
from gigafactory.coordinator.coordinator import Coordinator, CoordinatorSettings
from gigafactory.coordinator.core.ports import Blobs, Clock, Store
from gigafactory.dispatch.local import LocalDispatch
from gigafactory.domain.tenancy.access import Caller, Role
from gigafactory.profiles import shipped
from gigafactory.server.app import create_application
from gigafactory.server.connections import ConnectionLimits
from gigafactory.server.http_server import HttpServer
from gigafactory.store.memory import MemoryStore
from gigafactory.system.clock import SystemClock
from gigafactory.system.ids import RandomIds

SYSTEM = Caller(actor="system:tests", role=Role.ADMIN, products=("*",))
API = "/api/fleet"
PAGES_HOST = "gigafactory-test.localhost"

Prepare = Callable[["Server"], Awaitable[None]]


def a_coordinator(
    folder: Path,
    *,
    store: Store | None = None,
    clock: Clock | None = None,
    blobs: Blobs | None = None,
) -> Coordinator:
    """Return a coordinator; all adapters but the store are real, and logs go below the folder."""
    return Coordinator(
        store or MemoryStore(),
        LocalDispatch(),
        blobs or FileBlobs(folder / "blobs"),
        clock or SystemClock(),
        RandomIds(),
        settings=CoordinatorSettings(coordinator_id="test"),
        builtin_profiles=shipped(),
    )


@dataclass(frozen=True, kw_only=True)
class Server:
    """A coordinator that serves HTTP on loopback."""

    url: str
    """The base URL for programs: `http://127.0.0.1:…`."""
    pages: str
    """The base URL for browsers."""
    admin_token: str
    coordinator: Coordinator
    app: Litestar
    blobs: Path
    """The folder of logs and artifacts, if they are files."""

    async def token(
        self, user: str, role: Role = Role.OPERATOR, products: Sequence[str] = ("*",)
    ) -> str:
        """Issue a token to a person."""
        issued = await self.coordinator.tokens.issue(SYSTEM, user, role, tuple(products))
        return issued.secret

    async def factory_token(self, factory_id: str, products: Sequence[str] = ("*",)) -> str:
        """Enroll a factory and return its token; it has not sent a heartbeat yet."""
        invited = await self.coordinator.enrolment.invite(SYSTEM, tuple(products))
        issued = await self.coordinator.enrolment.enroll(invited.secret, factory_id)
        return issued.token

    def browser(self, **options: Any) -> httpx.AsyncClient:  # noqa: ANN401 - those of httpx
        """Return a client of the pages; it sets their host name, which only browsers resolve."""
        host = {"host": self.pages.removeprefix("http://")}
        return httpx.AsyncClient(base_url=self.url, headers=host, timeout=30, **options)

    def client(
        self, token: str | None = None, *, product: str | None = "notes", **headers: str
    ) -> httpx.AsyncClient:
        """Return an API client with a token: the admin's by default, none if it is empty."""
        all_headers: dict[str, str] = dict(headers)
        if token != "":
            all_headers["authorization"] = f"Bearer {token or self.admin_token}"
        if product is not None:
            all_headers["x-product-id"] = product
        return httpx.AsyncClient(base_url=self.url + API, headers=all_headers, timeout=30)


class StreamMessage(NamedTuple):
    """One message of a stream; a comment has no data."""

    id: str | None
    event: str | None
    data: Any


async def read_messages(response: httpx.Response) -> AsyncGenerator[StreamMessage]:
    """Yield the messages of a stream as they arrive, comments too."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
            continue
        data = json.loads(fields["data"]) if "data" in fields else None
        yield StreamMessage(fields.get("id"), fields.get("event"), data)
        fields = {}


@asynccontextmanager
async def open_stream(
    client: httpx.AsyncClient, path: str, **headers: str
) -> AsyncIterator[AsyncIterator[StreamMessage]]:
    """Open a stream and yield its messages until the block ends."""
    async with client.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        messages = read_messages(response)
        try:
            yield messages
        finally:
            await messages.aclose()


@dataclass(frozen=True)
class Worker:
    """A factory that uses the HTTP API like any other program."""

    id: str
    http: httpx.AsyncClient

    async def beat(self, **fields: object) -> httpx.Response:
        """Send a heartbeat."""
        defaults: dict[str, object] = {
            "factoryId": self.id,
            "instanceId": f"{self.id}-a",
            "capabilities": ["os:mac"],
            "engines": {"claude": {"version": "2.1.0", "seats": 4}},
            "slots": 4,
        }
        return await self.http.post("/factories/heartbeat", json=defaults | fields)

    async def claim(self, **more: object) -> httpx.Response:
        """Claim a job."""
        return await self.http.post("/claim", json={"factoryId": self.id, **more})

    async def granted(self) -> dict[str, Any]:
        """Return the next grant; fail if there is none."""
        response = await self.claim(wait=20)
        assert response.status_code == 200, response.text
        grant: dict[str, Any] = response.json()
        return grant

    async def report(self, grant: dict[str, Any], **fields: object) -> httpx.Response:
        """Report on a job under the epoch of its grant."""
        body = {"leaseEpoch": grant["leaseEpoch"], **fields}
        return await self.http.patch(f"/jobs/{grant['job']['id']}", json=body)


@asynccontextmanager
async def a_worker(
    server: "Server", factory_id: str = "mac-1", *, products: Sequence[str] = ("*",)
) -> AsyncIterator[Worker]:
    """Enroll a factory with four slots and four claude seats and send its first heartbeat."""
    token = await server.factory_token(factory_id, products)
    async with server.client(token, product=None) as client:
        worker = Worker(factory_id, client)
        response = await worker.beat()
        assert response.status_code == 200, response.text
        yield worker


@asynccontextmanager
async def a_server(
    folder: Path,
    *,
    store: Store | None = None,
    clock: Clock | None = None,
    blobs: Blobs | None = None,
    limits: ConnectionLimits | None = None,
    **options: Any,  # noqa: ANN401 - those of application
) -> AsyncIterator[Server]:
    """Serve a new coordinator; `options` are those of `create_application`."""
    coordinator = a_coordinator(folder, store=store, clock=clock, blobs=blobs)
    async with coordinator.running():
        admin = await coordinator.tokens.issue(SYSTEM, "admin", Role.ADMIN, ("*",))
        options.setdefault("hosts", ServedHosts(pages=frozenset({PAGES_HOST}), local=PAGES_HOST))
        app = create_application(coordinator, **options)
        async with serving(app, limits) as url:
            yield Server(
                url=url,
                pages=url.replace("127.0.0.1", PAGES_HOST),
                admin_token=admin.secret,
                coordinator=coordinator,
                app=app,
                blobs=folder / "blobs",
            )


@contextmanager
def a_server_in_thread(
    folder: Path,
    prepare: Prepare | None = None,
    **options: Any,  # noqa: ANN401 - those of application
) -> Iterator[Server]:
    """Serve in a separate thread, for clients that block; `prepare` runs in that thread."""
    ready: Future[Server] = Future()
    stop: Future[None] = Future()

    async def run() -> None:
        async with a_server(folder, **options) as server:
            if prepare is not None:
                await prepare(server)
            ready.set_result(server)
            await asyncio.wrap_future(stop)

    thread = Thread(target=lambda: asyncio.run(run()), name="server")
    thread.start()
    try:
        yield ready.result(timeout=30)
    finally:
        stop.set_result(None)
        thread.join()


@asynccontextmanager
async def serving(app: Litestar, limits: ConnectionLimits | None = None) -> AsyncIterator[str]:
    """Serve an application and yield its address until the block ends."""
    server = HttpServer(app, limits=limits, stop=app.state.streams.close)
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        await server.startup([listener])
        loop = asyncio.create_task(server.main_loop())
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await loop
            await server.shutdown()
