"""One coordinator over all of its lives: killed, and started again on the same data."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.services.aq import environment
from tests.services.fork_server import Child, ForkServer
from tests.support.crash.kill_points import reached_points
from tests.support.polling import until

ENDS_WITHIN_S = 30.0
ALIVE_AFTER_S = 0.1
"""A connection that broke while its process lives on for so long was only closed for idleness."""


class Life(NamedTuple):
    """One process, from its start to its end."""

    pid: int
    url: str
    token: str


def _life(child: Child) -> Life:
    told = json.loads(child.first_line)
    return Life(child.pid, told["url"], Path(told["tokenFile"]).read_text().strip())


class Lives:
    """The process that serves now, and what comes after it."""

    def __init__(
        self,
        fork_server: ForkServer,
        folder: Path,
        *,
        store: str | None = None,
        dooms: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        keeps_port: bool = False,
    ) -> None:
        """Live in a folder; each life but the last ends at one of the dooms (see kill_points)."""
        self.folder = folder
        self.history = folder / "history.jsonl"
        self.dooms = list(dooms)
        self.deaths = 0
        self._fork_server = fork_server
        self._store = ("--store", store) if store else ()
        self._environ = environment(folder, AQ_DATA=str(folder / "data"), **settings or {})
        self._keeps_port = keeps_port
        self._ahead = 0.0
        self._murdered: set[int] = set()
        self._turn = asyncio.Lock()
        self._life: Life | None = None
        self._log_file = folder / "log"
        self._log_begins = 0

    @property
    def life(self) -> Life:
        """The life that there is now."""
        assert self._life is not None, "it lives from `begin` on"
        return self._life

    async def begin(self) -> None:
        """Start it; a life that ends before it serves is followed by the next."""
        port = self.life.url.rpartition(":")[2] if self._keeps_port and self._life else "0"
        typed = ("serve", "--json", "--port", port, "--history", str(self.history), *self._store)
        while True:
            self._log_begins = self._log_file.stat().st_size if self._log_file.exists() else 0
            child = await asyncio.to_thread(
                self._fork_server.start,
                *typed,
                folder=self.folder,
                environ=self._environ,
                at=",".join(self.dooms) or None,
                ahead=self._ahead,
            )
            if child.first_line:
                self._life = _life(child)
                return
            await self._bury(child.pid)

    async def after(self, life: Life) -> None:
        """Come back when it is worth asking again, after a connection to this life broke."""
        async with self._turn:
            if self._life is not life or await self._lives_on(life):
                return
            await self._bury(life.pid)
            await self.begin()

    async def _lives_on(self, life: Life) -> bool:
        return await self._ended(life.pid, ALIVE_AFTER_S) is None

    async def _bury(self, pid: int) -> None:
        """See that it was killed as it was meant to be."""
        code = await self._ended(pid, ENDS_WITHIN_S)
        assert code == -signal.SIGKILL, f"ended with {code}:\n{self.log}"
        self.deaths += 1
        if pid not in self._murdered:
            self.dooms.remove(reached_points(self.history)[-1])

    async def _ended(self, pid: int, within_s: float) -> int | None:
        return await asyncio.to_thread(self._fork_server.wait, pid, within_s=within_s)

    async def murder(self, *, and_wait_s: float = 0.0) -> None:
        """Kill it now, and start it again, on a clock that went on for so long in between."""
        self._ahead += and_wait_s
        async with self.dead():
            pass

    @asynccontextmanager
    async def dead(self) -> AsyncIterator[None]:
        """Kill it now, and start it again when the block ends."""
        life = self.life
        self._murdered.add(life.pid)
        os.kill(life.pid, signal.SIGKILL)
        async with self._turn:
            if self._life is life:
                await self._bury(life.pid)
                yield
                await self.begin()
            else:
                yield

    async def stop(self) -> None:
        """Tell it to stop, in as many lives as that takes, until it does so by itself."""
        while True:
            life = self.life
            if self.dooms:
                await self._leading()
            os.kill(life.pid, signal.SIGTERM)
            if await self._ended(life.pid, ENDS_WITHIN_S) == 0:
                return
            await self._bury(life.pid)
            await self.begin()

    async def _leading(self) -> None:
        """Come back when it has duties that it could lay down."""
        await until(lambda: b"leading" in self._log_file.read_bytes()[self._log_begins :])

    async def end(self) -> None:
        """Leave nothing behind."""
        if self._life is not None:
            with suppress(ProcessLookupError):
                os.kill(self._life.pid, signal.SIGKILL)
            await self._ended(self._life.pid, ENDS_WITHIN_S)

    @property
    def log(self) -> str:
        """What it said of its work, its newest words."""
        return self._log_file.read_text(errors="replace")[-4000:]


@asynccontextmanager
async def living(lives: Lives) -> AsyncIterator[Lives]:
    """A coordinator that serves for this block."""
    try:
        await lives.begin()
        yield lives
    finally:
        await lives.end()
