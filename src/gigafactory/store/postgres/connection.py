"""PostgreSQL connections: settings, migrations and error messages."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias
from urllib.parse import urlsplit

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from gigafactory.domain.errors import Fault, Invalid, Unavailable
from gigafactory.store.postgres.queries import MIGRATIONS

# A string, because asyncpg.Connection takes no type parameter at run time.
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

PORT = 5432
CONNECT_MAX_S = 10.0
ANSWER_MAX_S = 30.0
"""A database that does not answer within this time counts as unavailable."""
DIRECT = (
    "notifications and prepared statements need a connection to PostgreSQL itself: give its own"
    " address and port, not the pooler's"
)
MIGRATION_LOCK = 0x6769_6761
"""An arbitrary number that other programs in the same database are unlikely to lock."""

# SQLSTATE prefixes: connection lost, access denied, no such database, out of resources, shut down,
# disk error, read-only server, internal error.
_UNAVAILABLE = ("08", "28", "3D", "53", "57", "58", "25006", "XX000")
# SQLSTATE prefixes: text with NUL, number out of range, key too long for an index.
_UNSTORABLE = ("22", "54")

_PORT = re.compile(r":\d+$")
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
        parts = urlsplit(dsn)
        several = "," in parts.netloc and "target_session_attrs" not in parts.query
        # Of several hosts, a standby that answers first must not be taken for the primary.
        self._wanted = SessionAttribute.read_write if several else None
        self.schema = schema

    def __str__(self) -> str:
        """Return hosts, ports and database, without the password."""
        parts = urlsplit(self._dsn)
        hosts = parts.netloc.rpartition("@")[2] or "localhost"
        return ",".join(map(_with_port, hosts.split(","))) + parts.path

    async def connect(self, **settings: str) -> Connection:
        """Open a connection with our schema as search path; call it inside `map_db_errors`.

        Raises Unavailable through a pooler that does not keep the session of a connection.
        """
        defaults = {"search_path": self.schema, "application_name": "gigafactory", "jit": "off"}
        connection: Connection = await asyncpg.connect(
            self._dsn,
            target_session_attrs=self._wanted,
            timeout=CONNECT_MAX_S,
            command_timeout=ANSWER_MAX_S,
            server_settings={**defaults, **settings},
        )
        search_path = None
        try:
            search_path = await connection.fetchval("SHOW search_path")
        finally:
            if search_path != self.schema:
                connection.terminate()
        if search_path != self.schema:
            raise Unavailable(f"{self._pooled} the search path is {search_path!r}; {DIRECT}")
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


def _with_port(host: str) -> str:
    return host if _PORT.search(host) and not host.endswith("]") else f"{host}:{PORT}"


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
