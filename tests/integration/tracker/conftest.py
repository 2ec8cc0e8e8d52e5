"""A fleet whose products have their tickets in trackers on loopback."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.services import shared
from tests.services.items_server import Items, an_items_server
from tests.support.tracker_fleet import Fleet, a_fleet


@pytest_asyncio.fixture
async def items() -> AsyncIterator[Items]:
    """Everybody's tickets."""
    async with an_items_server() as world:
        yield world


@pytest_asyncio.fixture
async def fleet(items: Items, tmp_path: Path) -> AsyncIterator[Fleet]:
    """A fleet that does its duties when a test says so."""
    async with a_fleet(items, tmp_path) as running:
        yield running


@pytest.fixture
def prism(services: Path) -> str:
    """Where GitHub's own description answers."""
    return shared.address(services, "prism")


@pytest.fixture
def emulate(services: Path) -> str:
    """Where an emulated GitHub answers."""
    return shared.address(services, "emulate")
