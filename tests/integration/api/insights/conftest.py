"""Fixtures: a separate coordinator for each test, because insights cover the whole fleet."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from gigafactory.store.sqlite.store import SqliteStore
from tests.support.api_server import Server, Worker, a_server, a_worker


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    """A coordinator for one test; the test runs once on each embedded store."""
    if request.param == "memory":
        async with a_server(tmp_path) as running:
            yield running
        return
    async with (
        SqliteStore.open(tmp_path / "fleet.db") as store,
        a_server(tmp_path, store=store) as running,
    ):
        yield running


@pytest_asyncio.fixture
async def admin(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """An API client of an admin, for the product notes."""
    async with server.client() as client:
        yield client


@pytest_asyncio.fixture
async def worker(server: Server) -> AsyncIterator[Worker]:
    """A factory with four slots."""
    async with a_worker(server) as factory:
        yield factory
