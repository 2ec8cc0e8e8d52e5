"""Fixtures of the suites over real HTTP: a server on each embedded store, and its clients.

All tests of a module share a server. Each test has its own product and sees no other.
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
    """A coordinator on loopback; each test runs once per embedded store."""
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
    """The id of a product for this test only."""
    return f"p-{uuid.uuid4().hex[:12]}"


@pytest_asyncio.fixture(loop_scope="module")
async def admin(server: Server, product: str) -> AsyncIterator[httpx.AsyncClient]:
    """An admin client for the test's product."""
    async with server.client(product=product) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def worker(server: Server, product: str) -> AsyncIterator[Worker]:
    """A factory of the test's product, with four slots and four seats of claude."""
    async with a_worker(server, f"mac-{product}", products=[product]) as factory:
        yield factory


@pytest.fixture(scope="session")
def forks() -> ForkServer:
    """The fork server, which starts coordinators and factories as separate processes."""
    return fork_server()
