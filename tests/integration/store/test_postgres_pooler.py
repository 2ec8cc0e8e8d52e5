"""A pooler such as PgBouncer between coordinator and database is refused with the reason."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from gigafactory.domain.errors import Unavailable
from gigafactory.store.postgres.connection import Database
from gigafactory.store.postgres.store import PostgresStore

SSL_REQUEST = 80877103
REFUSAL = b"SFATAL\0C08P01\0Munsupported startup parameter: search_path\0\0"


@asynccontextmanager
async def a_pooler() -> AsyncIterator[str]:
    """Run a server that responds like PgBouncer with default settings, and yield its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size, code = struct.unpack("!II", await reader.readexactly(8))
        if code == SSL_REQUEST:
            writer.write(b"N")
            size, _ = struct.unpack("!II", await reader.readexactly(8))
        await reader.readexactly(size - 8)
        writer.write(b"E" + struct.pack("!I", len(REFUSAL) + 4) + REFUSAL)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"postgresql://ann@127.0.0.1:{port}/fleet"


async def test_a_pooler_is_refused_with_the_reason_and_what_to_do() -> None:
    async with a_pooler() as address:
        with pytest.raises(Unavailable, match=r"behind a pooler .* not the pooler's"):
            async with PostgresStore.open(address):
                pass


async def test_a_connection_that_lost_its_settings_is_not_used(database: str) -> None:
    where = Database(database, "gigafactory")
    with pytest.raises(Unavailable, match=r"behind a pooler .* search path is 'public'"):
        await where.connect(search_path="public")
    server = await asyncpg.connect(database)
    assert await server.fetchval("SELECT to_regclass('public.migration')") is None
    await server.close()


async def test_a_lost_prepared_statement_is_blamed_on_the_pooler() -> None:
    where = Database("postgresql://ann@host/fleet", "gigafactory")
    with pytest.raises(Unavailable, match="behind a pooler"), where.map_db_errors():
        raise asyncpg.InvalidSQLStatementNameError("prepared statement does not exist")
