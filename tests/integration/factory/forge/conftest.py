"""Fixtures for shipping through a forge: a repo on an emulated GitHub, and runs that ship to it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.services import shared
from tests.services.emulate import TOKEN
from tests.support.factory.github_repo import BRANCH, GitHubRepo, ShippingRuns


@pytest_asyncio.fixture
async def hub(services: Path) -> AsyncIterator[GitHubRepo]:
    """A new repo on a stateful GitHub emulator."""
    address = shared.address(services, "emulate")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=address, headers=headers) as http:
        made = GitHubRepo(http)
        await made.create()
        yield made


@pytest.fixture
def prism(services: Path) -> str:
    """The address of the mock server that answers from GitHub's API description."""
    return shared.address(services, "prism")


@pytest.fixture
def desk(hub: GitHubRepo, tmp_path: Path) -> Iterator[ShippingRuns]:
    """A source of runs that ship to the repo."""
    made = ShippingRuns(tmp_path, hub.name)
    yield made
    made.close()


@pytest_asyncio.fixture
async def work(hub: GitHubRepo) -> str:
    """The approved commit, pushed to its branch."""
    return await hub.push(BRANCH, await hub.commit_of("main"))
