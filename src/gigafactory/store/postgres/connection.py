"""PostgreSQL connections: settings, migrations and error messages."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias
from urllib.parse import urlsplit

import asyncpg

from gigafactory.domain.errors import Fault, Invalid, Unavailable
from gigafactory.store.postgres.queries import MIGRATIONS

# At run time, connections do not know what their rows are.
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

CONNECT_MAX_S = 10.0
ANSWER_MAX_S = 30.0
"""A database that does not answer for so long counts as unavailable."""
MIGRATION_LOCK = 0x6769_6761
"""Any number that other programs in the same database are not likely to lock."""

# By SQLSTATE: connection lost, not let in, no such database, out of resources, shut down, its disk,
# a server that may only be read, and one that is at a loss itself.
_UNAVAILABLE = ("08", "28", "3D", "53", "57", "58", "25006", "XX000")
# A text with NUL in it, a number beyond all columns, a key that is too long for an index.
_UNSTORABLE = ("22", "54")

_CONNECTION_ERRORS = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)


def is_unavailable(fault: BaseException) -> bool:
    """Return whether the error means that the database is unavailable."""
    if isinstance(fault, asyncpg.PostgresError):
        return str(fault.sqlstate or "").startswith(_UNAVAILABLE)
    return isinstance(fault, _CONNECTION_ERRORS)


def is_unstorable(fault: BaseException) -> bool:
    """Return whether the error means that a value cannot be stored."""
    return isinstance(fault, asyncpg.PostgresError) and str(fault.sqlstate or "").startswith(
        _UNSTORABLE
    )


class Database:
    """An address, and the schema in it that is ours."""

    def __init__(self, dsn: str, schema: str) -> None:
        """Refuse a schema whose name would have to be quoted."""
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
            fault = Fault("schema", f"is {schema!r}; expected lower-case letters, digits and _")
            raise Invalid("the store's address", [fault])
        self._dsn = dsn
        self.schema = schema

    def __str__(self) -> str:
        """Where it is, without the password."""
        parts = urlsplit(self._dsn)
        return f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"

    async def connect(self, **settings: str) -> Connection:
        """A connection that finds our tables by their plain names; call it under `told`."""
        ours = {"search_path": self.schema, "application_name": "gigafactory", "jit": "off"}
        connection: Connection = await asyncpg.connect(
            self._dsn,
            timeout=CONNECT_MAX_S,
            command_timeout=ANSWER_MAX_S,
            server_settings={**ours, **settings},
        )
        return connection

    @contextmanager
    def map_db_errors(self) -> Iterator[None]:
        """Turn faults into a sentence for the caller.

        Raises Unavailable, or Invalid for a value that no column can hold.
        """
        try:
            yield
        except (asyncpg.PostgresError, *_CONNECTION_ERRORS) as fault:
            if is_unavailable(fault):
                said = str(fault) or type(fault).__name__
                message = f"the database at {self} is away: {said}; ask again with the same key"
                raise Unavailable(message) from fault
            if is_unstorable(fault):
                raise Invalid("what is to be kept", [Fault("", str(fault))]) from fault
            raise


async def migrate(connection: Connection, schema: str) -> None:
    """Bring the schema up to date; coordinators that start together do it one after the other.

    A schema from a newer program is left as it is: it was made so that this one can live with it.
    Raises Unavailable when the database cannot hold every text.
    """
    encoding = await connection.fetchval("SHOW server_encoding")
    if encoding != "UTF8":
        message = f"the database has encoding {encoding}; create one with ENCODING 'UTF8'"
        raise Unavailable(message)
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
        if await connection.fetchval("SELECT to_regnamespace($1) IS NULL", schema):
            await connection.execute(f"CREATE SCHEMA {schema}")
        await connection.execute("CREATE TABLE IF NOT EXISTS migration (number int PRIMARY KEY)")
        done = await connection.fetchval("SELECT coalesce(max(number), 0) FROM migration")
        for number, step in enumerate(MIGRATIONS[done:], start=done + 1):
            await connection.execute(step)
            await connection.execute("INSERT INTO migration (number) VALUES ($1)", number)
