"""Fixtures for a fleet whose products have their tickets in trackers on loopback."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.services import shared
from tests.services.items_server import Items, an_items_server
from tests.support.tracker_fleet import Fleet, a_fleet


@pytest_asyncio.fixture
async def items() -> AsyncIterator[Items]:
    """A tracker with the tickets of all products."""
    async with an_items_server() as world:
        yield world


@pytest_asyncio.fixture
async def fleet(items: Items, tmp_path: Path) -> AsyncIterator[Fleet]:
    """A fleet whose duties run only when a test requests them."""
    async with a_fleet(items, tmp_path) as running:
        yield running


@pytest.fixture
def prism(services: Path) -> str:
    """The address of the mock server that answers from GitHub's API description."""
    return shared.address(services, "prism")


@pytest.fixture
def emulate(services: Path) -> str:
    """The address of the GitHub emulator."""
    return shared.address(services, "emulate")
