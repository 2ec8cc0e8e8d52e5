"""Fixtures: a coordinator with an admin client, a factory and a signed-in user."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest_asyncio

from tests.support.api_server import Server, Worker, a_server, a_worker
from tests.support.web_session import Visitor, a_visitor


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A coordinator for one test."""
    async with a_server(tmp_path) as running:
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


@pytest_asyncio.fixture
async def ann(server: Server) -> AsyncIterator[Visitor]:
    """A signed-in user."""
    async with a_visitor(server) as visitor:
        yield visitor
