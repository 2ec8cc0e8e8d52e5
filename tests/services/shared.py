"""One of each service for a whole test run: started on first use, stopped when the run ends.

The run holds a file lock until it ends. Each service has a keeper process that waits for this lock.
The keeper gets the lock when the run ends, even by a kill, and then stops the service.
"""

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
MEMORY = Path("/dev/shm")
MEMORY_FREE_MIN = 4 << 30


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the exclusive lock on a file and hold it until the block ends."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def roomy_folder() -> Path | None:
    """Return an in-memory folder for temporary data, or None if it lacks space."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_FREE_MIN:
        return MEMORY
    return None


class Run:
    """A test run: its lock, and the folder in which its workers find the services."""

    def __init__(self) -> None:
        # The folder's name is short, since a socket path is limited to about 100 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="aq-test-", dir=roomy_folder()))
        # A server that runs as another user must be able to reach its folder in here.
        self.folder.chmod(0o711)
        self._alive = locked(self.folder / "alive")
        self._alive.__enter__()

    def end(self) -> None:
        """Release the lock and wait until all services have stopped."""
        self._alive.__exit__(None, None, None)
        for running in self.folder.glob("*.running"):
            with locked(running):
                pass
        shutil.rmtree(self.folder, ignore_errors=True)


def address(folder: Path, service: str) -> str:
    """Return the address of the run's `tests.services.<service>`; start it on first use."""
    known = folder / f"{service}.address"
    with locked(folder / f"{service}.lock"):
        if not known.exists():
            known.write_text(_launch(folder, service))
        return known.read_text()


def _launch(folder: Path, service: str) -> str:
    log = folder / f"{service}.log"
    said, say = os.pipe()
    # The keeper outlives the worker that starts it. It has its own session, since Ctrl-C should
    # interrupt the run, not its services.
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", f"tests.services.{service}", str(folder)],
        {**os.environ, "PYTHONPATH": str(ROOT)},
        setsid=True,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, say, 1),
            (os.POSIX_SPAWN_OPEN, 2, str(log), os.O_WRONLY | os.O_CREAT, 0o600),
        ],
    )
    os.close(say)
    with os.fdopen(said) as answer:
        found = answer.readline().strip()
    if not found:
        raise RuntimeError(f"the {service} service did not start:\n{log.read_text()}")
    return found


def keep(service: str, start: Callable[[Path], AbstractContextManager[str]]) -> None:
    """Act as the keeper of a service: start it, print its address, stop it after the run."""
    folder = Path(sys.argv[1])
    with locked(folder / f"{service}.running"), start(folder / service) as where:
        sys.stdout.write(f"{where}\n")
        sys.stdout.flush()
        with locked(folder / "alive"):
            pass
