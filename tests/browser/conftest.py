"""Fixtures: a real browser, a real coordinator and a signed-in user."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.browser.people import Visitor
from tests.services import chromium
from tests.services.debian import Unavailable
from tests.support.api_server import Server
from tests.support.factory.local_fleet import FactoryHarness, a_local_harness


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests; each test has its own context and cookies."""
    try:
        program, environ = chromium.program()
    except Unavailable as why:
        pytest.skip(str(why))
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(
            executable_path=program, args=list(chromium.FLAGS), env=dict(environ)
        )
        try:
            yield launched
        finally:
            await launched.close()


@pytest_asyncio.fixture(loop_scope="session")
async def yard(tmp_path: Path) -> AsyncIterator[FactoryHarness]:
    async with a_local_harness(tmp_path) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def ann(browser: Browser, yard: FactoryHarness) -> AsyncIterator[Visitor]:
    """Ann, an admin, on the home page."""
    assert isinstance(yard.server, Server)
    async with Visitor.signed_in(browser, yard.server, "ann") as visitor:
        yield visitor
        assert visitor.errors == [], "no page of ours writes an error into the console"
