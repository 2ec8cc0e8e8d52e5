"""What the suites over real HTTP share: a server on each embedded store, and clients of it.

A server serves all tests of a module; each test has a product of its own: none sees another.
"""

import uuid
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from gigafactory.store.sqlite.store import SqliteStore
from tests.services.fork_server import ForkServer, fork_server
from tests.support.api_server import Server, Worker, a_server, a_worker


@pytest_asyncio.fixture(params=["memory", "sqlite"], scope="module", loop_scope="module")
async def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Server]:
    """A coordinator that answers on loopback, once on each embedded store."""
    folder = tmp_path_factory.mktemp("server")
    if request.param == "memory":
        async with a_server(folder) as running:
            yield running
        return
    async with (
        SqliteStore.open(folder / "fleet.db") as store,
        a_server(folder, store=store) as running,
    ):
        yield running


@pytest.fixture
def product() -> str:
    """The product that a test has to itself."""
    return f"p-{uuid.uuid4().hex[:12]}"


@pytest_asyncio.fixture(loop_scope="module")
async def admin(server: Server, product: str) -> AsyncIterator[httpx.AsyncClient]:
    """An admin who works on the test's product."""
    async with server.client(product=product) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def worker(server: Server, product: str) -> AsyncIterator[Worker]:
    """A factory of the test's product, with four slots and as many seats of claude."""
    async with a_worker(server, f"mac-{product}", products=[product]) as factory:
        yield factory


@pytest.fixture(scope="session")
def forks() -> ForkServer:
    """The server that starts coordinators and factories as processes of their own."""
    return fork_server()
