"""The PostgreSQL server of the suite: isolated, durable, and removed when it is stopped."""

import os
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from tests.services import postgres as postgres_service
from tests.services import postgres_binaries

WHEEL = next(postgres_binaries.wheel_folders(), None)


async def value(dsn: str, query: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_database_fixture_is_empty_and_private(database: str) -> None:
    assert await value(database, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    assert database.endswith(str(await value(database, "SELECT current_database()")))


async def test_the_shared_server_is_durable_and_has_room_for_many_connections(
    postgres: Callable[[str], str],
) -> None:
    assert await value(postgres("postgres"), "SHOW fsync") == "on"
    assert await value(postgres("postgres"), "SHOW max_connections") == "200"


async def test_the_server_listens_on_loopback_only(postgres: Callable[[str], str]) -> None:
    assert await value(postgres("postgres"), "SHOW listen_addresses") == "127.0.0.1"


@pytest.mark.parametrize(
    "end",
    [
        lambda server: server.stop("fast"),
        lambda server: server.stop("immediate"),
        lambda server: server.kill(),
    ],
    ids=["fast", "immediate", "kill"],
)
async def test_committed_data_survives_a_stop_or_kill(
    private_postgres: postgres_service.Server,
    end: Callable[[postgres_service.Server], None],
) -> None:
    await value(private_postgres.dsn(), "CREATE TABLE kept AS SELECT 42 AS answer")
    end(private_postgres)
    private_postgres.start()
    assert await value(private_postgres.dsn(), "SELECT answer FROM kept") == 42


async def test_restarted_server_listens_at_the_same_address(
    private_postgres: postgres_service.Server,
) -> None:
    address, pid = private_postgres.dsn(), private_postgres.pid
    private_postgres.restart("immediate")
    assert private_postgres.pid != pid
    assert await value(address, "SELECT 1") == 1


def test_a_private_server_leaves_nothing_behind() -> None:
    with postgres_service.private() as server:
        folder, pid = server.folder, server.pid
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_stopped_server_has_no_pid(private_postgres: postgres_service.Server) -> None:
    private_postgres.stop()
    with pytest.raises(RuntimeError, match="is not running"):
        _ = private_postgres.pid


@pytest.mark.skipif(WHEEL is None, reason="the wheel has no release for this Python")
async def test_wheel_binaries_are_used_without_a_system_postgresql() -> None:
    with postgres_service.private(programs=WHEEL) as server:
        assert "PostgreSQL" in str(await value(server.dsn(), "SELECT version()"))


@pytest.mark.skipif(WHEEL is None, reason="the wheel has no release for this Python")
async def test_binaries_readable_only_by_root_are_copied(tmp_path: Path) -> None:
    assert WHEEL is not None
    hidden = tmp_path / "hidden"
    programs = postgres_binaries.copy(WHEEL, hidden)
    hidden.chmod(0o700)
    with postgres_service.private(programs=programs) as server:
        assert await value(server.dsn(), "SELECT 1") == 1
