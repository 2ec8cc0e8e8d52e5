"""A coordinator behind real HTTP on a free loopback port, in the test's own event loop."""

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
    """A coordinator with everything real but, by default, its store; logs go below the folder."""
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
    """A coordinator that answers on loopback."""

    url: str
    """For programs, without a path: `http://127.0.0.1:…`."""
    pages: str
    """For browsers, without a path."""
    admin_token: str
    coordinator: Coordinator
    app: Litestar
    blobs: Path
    """The folder of logs and artifacts, where they are files."""

    async def token(
        self, user: str, role: Role = Role.OPERATOR, products: Sequence[str] = ("*",)
    ) -> str:
        """A new token of a person."""
        made = await self.coordinator.tokens.issue(SYSTEM, user, role, tuple(products))
        return made.secret

    async def factory_token(self, factory_id: str, products: Sequence[str] = ("*",)) -> str:
        """The token of a new factory, which has not sent a heartbeat yet."""
        invited = await self.coordinator.enrolment.invite(SYSTEM, tuple(products))
        made = await self.coordinator.enrolment.enroll(invited.secret, factory_id)
        return made.token

    def browser(self, **options: Any) -> httpx.AsyncClient:  # noqa: ANN401 - those of httpx
        """A client of the pages; only browsers resolve their host name by themselves."""
        host = {"host": self.pages.removeprefix("http://")}
        return httpx.AsyncClient(base_url=self.url, headers=host, timeout=30, **options)

    def client(
        self, token: str | None = None, *, product: str | None = "notes", **headers: str
    ) -> httpx.AsyncClient:
        """A client of the API with a token (the admin's by default; an empty one for none)."""
        given: dict[str, str] = dict(headers)
        if token != "":
            given["authorization"] = f"Bearer {token or self.admin_token}"
        if product is not None:
            given["x-product-id"] = product
        return httpx.AsyncClient(base_url=self.url + API, headers=given, timeout=30)


class Told(NamedTuple):
    """One message of a stream; a comment has no data."""

    id: str | None
    event: str | None
    data: Any


async def told(response: httpx.Response) -> AsyncGenerator[Told]:
    """The messages of a stream as they come, comments too."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
            continue
        data = json.loads(fields["data"]) if "data" in fields else None
        yield Told(fields.get("id"), fields.get("event"), data)
        fields = {}


@asynccontextmanager
async def streamed(
    client: httpx.AsyncClient, path: str, **headers: str
) -> AsyncIterator[AsyncIterator[Told]]:
    """The messages of a stream, until the block ends."""
    async with client.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        messages = told(response)
        try:
            yield messages
        finally:
            await messages.aclose()


@dataclass(frozen=True)
class Worker:
    """A factory that speaks with the coordinator over HTTP, as any other program would."""

    id: str
    http: httpx.AsyncClient

    async def beat(self, **says: object) -> httpx.Response:
        """Say what the factory has and runs."""
        usual: dict[str, object] = {
            "factoryId": self.id,
            "instanceId": f"{self.id}-a",
            "capabilities": ["os:mac"],
            "engines": {"claude": {"version": "2.1.0", "seats": 4}},
            "slots": 4,
        }
        return await self.http.post("/factories/heartbeat", json=usual | says)

    async def claim(self, **more: object) -> httpx.Response:
        """Ask for work."""
        return await self.http.post("/claim", json={"factoryId": self.id, **more})

    async def granted(self) -> dict[str, Any]:
        """The next grant, which must come."""
        answer = await self.claim(wait=20)
        assert answer.status_code == 200, answer.text
        grant: dict[str, Any] = answer.json()
        return grant

    async def report(self, grant: dict[str, Any], **says: object) -> httpx.Response:
        """Report on a job under the epoch of its grant."""
        told = {"leaseEpoch": grant["leaseEpoch"], **says}
        return await self.http.patch(f"/jobs/{grant['job']['id']}", json=told)


@asynccontextmanager
async def a_worker(
    server: "Server", factory_id: str = "mac-1", *, products: Sequence[str] = ("*",)
) -> AsyncIterator[Worker]:
    """A factory with four slots and as many seats of claude, which has sent its first heartbeat."""
    token = await server.factory_token(factory_id, products)
    async with server.client(token, product=None) as client:
        worker = Worker(factory_id, client)
        answer = await worker.beat()
        assert answer.status_code == 200, answer.text
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
    """A running server over a new coordinator; `options` are those of `application`."""
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
def a_server_apart(
    folder: Path,
    prepare: Prepare | None = None,
    **options: Any,  # noqa: ANN401 - those of application
) -> Iterator[Server]:
    """A running server in a thread of its own, for clients that block; `prepare` is done there."""
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
    """The address at which an application answers while the block lasts."""
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
