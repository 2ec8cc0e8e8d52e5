"""SQLite connections: settings, ownership, migrations and error messages."""

import errno
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from gigafactory.domain.errors import StoreDiskFull, Unavailable
from gigafactory.store.sqlite.queries import MIGRATIONS

if sys.platform != "win32":
    import fcntl

WRITER_CACHE_KIB = 64 * 1024
READER_CACHE_KIB = 16 * 1024
CHECKPOINT_PAGES = 16_000
"""Large bodies can grow the log faster than the number of writes suggests: limit its size too."""
STATEMENTS_KEPT = 512
FREE_MIN = 1 << 16
"""A disk with fewer free bytes is full: SQLite needs several pages at once."""
BUSY_S = 1.0
"""How long to wait for another program's lock; the event loop blocks meanwhile."""

# `fullfsync` matters only on macOS, where a plain sync does not reach the disk.
_SETTINGS = f"""
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA fullfsync = ON;
PRAGMA checkpoint_fullfsync = ON;
PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
PRAGMA temp_store = MEMORY;
"""

_ADVICE = {
    "SQLITE_FULL": "the disk is full; free some space, then retry with the same idempotency key",
    "SQLITE_READONLY": "it is not writable; check the owner of the file and its folder",
    "SQLITE_CANTOPEN": "it cannot be opened; check that the folder exists and is writable",
    "SQLITE_CORRUPT": "the file is damaged; stop the coordinator and restore a backup",
    "SQLITE_NOTADB": "the file is not a Gigafactory database; choose another file",
    "SQLITE_IOERR": "the disk failed; check it, then retry with the same idempotency key",
}


@contextmanager
def map_db_errors(path: Path) -> Iterator[None]:
    """Map database errors to a message for the caller.

    Raises Unavailable.
    """
    try:
        yield
    except sqlite3.OperationalError as fault:
        raise _unavailable(path, fault) from fault
    except sqlite3.DatabaseError as fault:
        if type(fault) is not sqlite3.DatabaseError:
            raise
        raise _unavailable(path, fault) from fault


def _unavailable(path: Path, fault: sqlite3.Error) -> Unavailable:
    name = getattr(fault, "sqlite_errorname", "")
    # On a full disk, SQLite cannot make its other files, and calls that an I/O error.
    if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")) and _is_full(path):
        name = "SQLITE_FULL"
    advice = next((text for start, text in _ADVICE.items() if name.startswith(start)), None)
    kind = StoreDiskFull if name.startswith("SQLITE_FULL") else Unavailable
    return kind(f"the store {path} is unavailable: {advice or fault}")


def _is_full(path: Path) -> bool:
    with suppress(OSError):
        if shutil.disk_usage(path.parent).free < FREE_MIN:
            return True
        if sys.platform != "win32":
            files = os.statvfs(path.parent)
            return files.f_files > 0 and files.f_favail == 0
    return False


def cannot_open(path: Path, fault: OSError) -> Unavailable:
    """Return the error for a file of the store that cannot be opened."""
    if fault.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StoreDiskFull(f"the store {path} is unavailable: {_ADVICE['SQLITE_FULL']}")
    advice = f"{_ADVICE['SQLITE_CANTOPEN']} ({fault.strerror})"
    return Unavailable(f"the store {path} is unavailable: {advice}")


class OpenedFile:
    """The file that was at a path when the store was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = self._identify()

    def _identify(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def require_in_place(self) -> None:
        """Check that nobody has replaced or removed the file: what is written to it would be lost.

        Raises Unavailable.
        """
        if self._identify() != self._identity:
            raise Unavailable(
                f"the store {self._path} was replaced or removed while the coordinator ran;"
                " restart the coordinator"
            )


def create_file(path: Path) -> None:
    """Create the file, readable by its owner only, unless it exists.

    Raises Unavailable.
    """
    try:
        # Do not open an existing file: closing it would release the locks of this process.
        path.touch(mode=0o600)
    except OSError as fault:
        raise cannot_open(path, fault) from fault


def connect(path: Path, *, cache_kib: int) -> sqlite3.Connection:
    """Open a connection with manual transactions; use it from one thread at a time."""
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
    complete = False
    try:
        yield
        complete = True
    finally:
        if connection.in_transaction and not complete:
            connection.execute("ROLLBACK")


@contextmanager
def ownership(path: Path) -> Iterator[None]:
    """Own the store for the block, under every name that its file has.

    Raises Unavailable if another coordinator owns the store.
    """
    # A symbolic link is only another name of the file.
    path = path.resolve()
    with closing(_lock_name(path)):
        create_file(path)
        with _locked_file(path):
            yield


def _owned_by_another(path: Path) -> Unavailable:
    return Unavailable(
        f"the store {path} belongs to a running coordinator; stop that coordinator,"
        " or give this one its own data folder (AQ_DATA)"
    )


@contextmanager
def _locked_file(path: Path) -> Iterator[None]:
    """Lock the file itself: a hard link or a mount gives it a second name, and a second log."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError as fault:
        raise cannot_open(path, fault) from fault
    try:
        if sys.platform != "win32":
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _owned_by_another(path) from None
        yield
    finally:
        # This also releases SQLite's own locks of this process, so it comes last.
        os.close(handle)


def _lock_name(path: Path) -> sqlite3.Connection:
    # Every system releases a SQLite lock when its process ends, even after a crash.
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
        raise _owned_by_another(path) from fault
    return owner


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the schema up to date, one transaction per migration.

    Raises Unavailable if a newer program has migrated the file.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        message = (
            f"the store {path} has schema {version}, but this program supports up to"
            f" {len(MIGRATIONS)}; install the newer program again"
        )
        raise Unavailable(message)
    for number, step in enumerate(MIGRATIONS[version:], start=version + 1):
        script = f"BEGIN IMMEDIATE;\n{step}\nPRAGMA user_version = {number};\nCOMMIT;"
        connection.executescript(script)
