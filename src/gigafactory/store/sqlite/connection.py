"""SQLite connections: settings, ownership, migrations and error messages."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gigafactory.domain.errors import Unavailable
from gigafactory.store.sqlite.queries import MIGRATIONS

WRITER_CACHE_KIB = 64 * 1024
READER_CACHE_KIB = 16 * 1024
CHECKPOINT_PAGES = 16_000
"""With large bodies the log grows sooner than by the count of writes that usually ends it."""
STATEMENTS_KEPT = 512
BUSY_S = 1.0
"""How long to wait for another program's lock; the event loop blocks meanwhile."""

# `fullfsync` matters on macOS alone, where a plain sync does not reach the disk.
_SETTINGS = f"""
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA fullfsync = ON;
PRAGMA checkpoint_fullfsync = ON;
PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
PRAGMA temp_store = MEMORY;
"""

_ADVICE = {
    "SQLITE_FULL": "the disk is full; free some space, then ask again with the same key",
    "SQLITE_READONLY": "it cannot be written; check who owns the file and its folder",
    "SQLITE_CANTOPEN": "it cannot be opened; check that the folder exists and may be written",
    "SQLITE_CORRUPT": "the file is damaged; stop the coordinator and restore a backup",
    "SQLITE_NOTADB": "the file is not a database of this program; name another one",
    "SQLITE_IOERR": "the disk failed; check it, then ask again with the same key",
}


@contextmanager
def map_db_errors(path: Path) -> Iterator[None]:
    """Map database errors to a message for the caller.

    Raises Unavailable.
    """
    try:
        yield
    except sqlite3.OperationalError as fault:
        raise Unavailable(_describe(path, fault)) from fault
    except sqlite3.DatabaseError as fault:
        if type(fault) is not sqlite3.DatabaseError:
            raise
        raise Unavailable(_describe(path, fault)) from fault


def _describe(path: Path, fault: sqlite3.Error) -> str:
    name = getattr(fault, "sqlite_errorname", "")
    meaning = next((text for start, text in _ADVICE.items() if name.startswith(start)), None)
    return f"the store {path} is away: {meaning or fault}"


def create_file(path: Path) -> None:
    """Create the file, readable by its owner only, unless it exists.

    Raises Unavailable.
    """
    try:
        # An existing file is not opened: closing it again would end the locks of this process.
        path.touch(mode=0o600)
    except OSError as fault:
        message = f"the store {path} is away: {_ADVICE['SQLITE_CANTOPEN']} ({fault.strerror})"
        raise Unavailable(message) from fault


def connect(path: Path, *, cache_kib: int) -> sqlite3.Connection:
    """Open a connection with manual transactions, usable from any single thread."""
    connection = sqlite3.connect(
        path,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS_KEPT,
    )
    try:
        connection.executescript(_SETTINGS)
        connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


@contextmanager
def open_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write inside a transaction that stays open; roll back if the block fails."""
    connection.execute("BEGIN IMMEDIATE")
    whole = False
    try:
        yield
        whole = True
    finally:
        if connection.in_transaction and not whole:
            connection.execute("ROLLBACK")


def take_ownership(path: Path) -> sqlite3.Connection:
    """Take ownership of the store; closing the connection releases it.

    Raises Unavailable when another one has it.
    """
    # A SQLite lock ends with its process on every system, however the process ends.
    file = path.with_name(path.name + ".owner")
    create_file(file)
    owner = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        owner.execute("PRAGMA journal_mode = MEMORY")
        owner.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as fault:
        owner.close()
        if getattr(fault, "sqlite_errorname", "") != "SQLITE_BUSY":
            raise
        message = (
            f"the store {path} belongs to a coordinator that is running; stop that one,"
            " or give this one a data folder of its own (AQ_DATA)"
        )
        raise Unavailable(message) from fault
    return owner


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema up to date, one whole step at a time.

    Raises Unavailable when the file is from a newer program.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        message = (
            f"the store {path} has schema {version}, and this program knows {len(MIGRATIONS)};"
            " install the newer program again"
        )
        raise Unavailable(message)
    for number, step in enumerate(MIGRATIONS[version:], start=version + 1):
        script = f"BEGIN IMMEDIATE;\n{step}\nPRAGMA user_version = {number};\nCOMMIT;"
        connection.executescript(script)
