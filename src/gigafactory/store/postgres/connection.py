"""PostgreSQL connections: settings, migrations and error messages."""

import os
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from gigafactory.domain.errors import Fault, Invalid, Unavailable
from gigafactory.store.postgres.address import name_of, single_hosts
from gigafactory.store.postgres.queries import MIGRATIONS

# A string, because asyncpg.Connection takes no type parameter at run time.
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

CONNECT_MAX_S = 10.0
"""How long to try all hosts; each gets its share, because a lost machine does not answer at all."""
ANSWER_MAX_S = 30.0
"""A database that does not answer within this time counts as unavailable."""
DIRECT = (
    "notifications and prepared statements need a connection to PostgreSQL itself: give its own"
    " address and port, not the pooler's"
)
MIGRATION_LOCK = 0x6769_6761
"""An arbitrary number that other programs in the same database are unlikely to lock."""

# SQLSTATE prefixes: connection lost, access denied, no such database, out of resources, shut down,
# disk error, read-only server, internal error or damaged data.
_UNAVAILABLE = ("08", "28", "3D", "53", "57", "58", "25006", "XX")
# SQLSTATE prefixes: text with NUL, number out of range, key too long for an index.
_UNSTORABLE = ("22", "54")

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_CONNECTION_ERRORS = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)


def is_unavailable(fault: BaseException) -> bool:
    """Return whether the error means that the database is unavailable."""
    if isinstance(fault, asyncpg.PostgresError):
        return str(fault.sqlstate or "").startswith(_UNAVAILABLE)
    return isinstance(fault, _CONNECTION_ERRORS)


def _is_pooler(fault: BaseException) -> bool:
    """Return whether the error is one that only a pooler such as PgBouncer causes."""
    lost = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
    return isinstance(fault, lost) or "unsupported startup parameter" in str(fault)


def is_unstorable(fault: BaseException) -> bool:
    """Return whether the error means that a value cannot be stored."""
    return isinstance(fault, asyncpg.PostgresError) and str(fault.sqlstate or "").startswith(
        _UNSTORABLE
    )


class Database:
    """The address of a database, and our schema in it."""

    def __init__(self, dsn: str, schema: str) -> None:
        """Accept only a schema name that needs no quotes.

        Raises Invalid.
        """
        if not _SCHEMA.fullmatch(schema):
            fault = Fault("schema", f"is {schema!r}; expected lower-case letters, digits and _")
            raise Invalid("the address of the store", [fault])
        self._dsn = dsn
        self._hosts = single_hosts(dsn)
        self._serving = 0
        """The host that served last; the others are tried after it."""
        chosen = "target_session_attrs" in dsn or "PGTARGETSESSIONATTRS" in os.environ
        # A standby that answers must not be taken for the primary.
        self._wanted = None if chosen else SessionAttribute.read_write
        self.schema = schema
        self.on_connected: Callable[[Connection], Awaitable[None]] | None = None
        """Called with each new connection before its first use."""

    def __str__(self) -> str:
        """Return hosts, ports and database, without the password."""
        return name_of(self._dsn)

    async def connect(self, **settings: str) -> Connection:
        """Open a connection with our schema as search path; call it inside `map_db_errors`.

        Raises Unavailable through a pooler that does not keep the session of a connection.
        """
        first: Exception | None = None
        for number in range(self._serving, self._serving + len(self._hosts)):
            host = number % len(self._hosts)
            try:
                connection = await self._connect(self._hosts[host], settings)
            except (asyncpg.PostgresError, *_CONNECTION_ERRORS) as fault:
                first = first or fault
            else:
                self._serving = host
                return connection
        assert first is not None, "an address has a host"
        raise first

    async def _connect(self, dsn: str, settings: dict[str, str]) -> Connection:
        defaults = {"search_path": self.schema, "application_name": "gigafactory", "jit": "off"}
        connection: Connection = await asyncpg.connect(
            dsn,
            target_session_attrs=self._wanted,
            timeout=CONNECT_MAX_S / len(self._hosts),
            command_timeout=ANSWER_MAX_S,
            server_settings={**defaults, **settings},
        )
        usable = False
        try:
            search_path = await connection.fetchval("SHOW search_path")
            if search_path != self.schema:
                raise Unavailable(f"{self._pooled} the search path is {search_path!r}; {DIRECT}")
            if self.on_connected is not None:
                await self.on_connected(connection)
            usable = True
        finally:
            if not usable:
                connection.terminate()
        return connection

    @property
    def _pooled(self) -> str:
        return f"the database at {self} is behind a pooler that keeps no sessions:"

    @contextmanager
    def map_db_errors(self) -> Iterator[None]:
        """Map database errors to a message for the caller.

        Raises Unavailable, or Invalid for a value that no column can hold.
        """
        try:
            yield
        except (asyncpg.PostgresError, *_CONNECTION_ERRORS) as fault:
            if _is_pooler(fault):
                raise Unavailable(f"{self._pooled} {fault}; {DIRECT}") from fault
            if is_unavailable(fault):
                cause = str(fault) or type(fault).__name__
                message = (
                    f"the database at {self} is unavailable: {cause};"
                    " retry with the same idempotency key"
                )
                raise Unavailable(message) from fault
            if is_unstorable(fault):
                raise Invalid("the value to store", [Fault("", str(fault))]) from fault
            raise


async def migrate(connection: Connection, schema: str) -> None:
    """Bring the schema up to date; coordinators that start together take turns.

    A newer schema is left as it is, because migrations stay compatible with older programs.
    Raises Unavailable if the encoding of the database is not UTF-8.
    """
    encoding = await connection.fetchval("SHOW server_encoding")
    if encoding != "UTF8":
        message = f"the database has encoding {encoding}; create it with ENCODING 'UTF8'"
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
