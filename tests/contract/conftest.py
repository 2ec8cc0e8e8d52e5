"""Fixtures of the contract tests: an empty store of every kind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gigafactory.coordinator.core.ports import Store
from gigafactory.store.memory import MemoryStore
from gigafactory.store.sqlite.store import SqliteStore

HOMES = ("memory_store", "sqlite_store", "postgres_store")


@pytest.fixture
def memory_store() -> Store:
    return MemoryStore()


@pytest.fixture
async def sqlite_store(tmp_path: Path) -> AsyncIterator[Store]:
    async with SqliteStore.open(tmp_path / "fleet.db") as store:
        yield store


@pytest.fixture
async def postgres_store(database: str) -> AsyncIterator[Store]:
    from gigafactory.store.postgres.store import PostgresStore

    async with PostgresStore.open(database) as store:
        yield store


@pytest.fixture(
    params=[
        pytest.param(home, marks=pytest.mark.service if home == "postgres_store" else ())
        for home in HOMES
    ]
)
def store(request: pytest.FixtureRequest) -> Store:
    """An empty store; each test runs once per store."""
    home: Store = request.getfixturevalue(request.param)
    return home
