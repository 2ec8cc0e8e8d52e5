"""The provider `process`: factories as local processes, each with its own data folder.

POSIX only: a process is alive while it holds an inherited file lock.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gigafactory.autoscale.provider import CannotProvide
from gigafactory.client import fleet
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.scaling.scale_target import Shape
from gigafactory.factory.agent.membership import FleetMembership, save_membership
from gigafactory.factory.core.data_dir import DataDir

AQ = "import sys; from gigafactory.cli.main import main; sys.exit(main())"
"""The `aq` command, wherever it is installed."""
WITHHELD = ("AQ_FLEET_TOKEN", "AQ_FLEET_API", "AQ_PRODUCT_ID", "AQ_DATA", "AQ_FACTORY_ID")
"""Variables of the autoscaler that its factories do not inherit."""


class ProcessProvider:
    """Local factory processes; after a restart they are found by their folders and locks."""

    def __init__(
        self,
        folder: Path,
        shape: Shape,
        client: AsyncClient,
        *,
        options: Sequence[str] = (),
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._folder = folder
        self._shape = shape
        self._client = client
        self._options = tuple(options)
        self._environ = {key: value for key, value in environ.items() if key not in WITHHELD}
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def list_is_complete(self) -> bool:
        """True: a process without a lock is not running."""
        return True

    async def list_machines(self) -> frozenset[str]:
        """Return the factories whose process is running."""
        for name, child in list(self._children.items()):
            if child.poll() is not None:
                del self._children[name]
        return await asyncio.to_thread(self._list_living)

    def _list_living(self) -> frozenset[str]:
        lock_files = self._folder.glob(f"{self._shape.factories}*/alive")
        return frozenset(file.parent.name for file in lock_files if _is_locked(file))

    async def start(self, name: str) -> None:
        """Enroll a factory and start its process."""
        data = self._folder / name
        data_dir = DataDir.under(data)
        try:
            await asyncio.to_thread(data_dir.create)
        except OSError as error:
            raise CannotProvide(f"cannot create its folder {data}: {error}") from None
        invited = await self._client.send(fleet.invite(self._shape.products))
        member = await self._client.send(fleet.enroll(invited.secret, name))
        save_membership(data_dir, FleetMembership(self._client.url, name, member.token))
        self._children[name] = self._spawn(data)

    def _spawn(self, data: Path) -> subprocess.Popen[bytes]:
        """Start the process; it holds the lock for its whole lifetime."""
        with (data / "alive").open("a") as alive, (data / "log").open("ab") as log:
            try:
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
                child = subprocess.Popen(
                    [sys.executable, "-c", AQ, "factory", "run", *self._options_for(data)],
                    env=self._environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(alive.fileno(),),
                    # The factories must survive the autoscaler.
                    start_new_session=True,
                )
            except BlockingIOError:
                raise CannotProvide(f"another factory is still running in {data}") from None
            except OSError as error:
                raise CannotProvide(f"cannot start a factory in {data}: {error}") from None
            alive.truncate(0)
            alive.write(str(child.pid))
        return child

    def _options_for(self, data: Path) -> list[str]:
        typed = ["--data", str(data), "--leave", "--slots", str(self._shape.slots)]
        return [*typed, "--label", f"shape:{self._shape.name}", *self._options]

    async def stop(self, name: str) -> None:
        """Ask the process to exit, like Ctrl-C."""
        file = self._folder / name / "alive"
        with contextlib.suppress(OSError, ValueError):
            if _is_locked(file):
                os.kill(int(file.read_text()), signal.SIGTERM)


def _is_locked(file: Path) -> bool:
    """Whether the process that was started with this lock is running."""
    with file.open("r") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
