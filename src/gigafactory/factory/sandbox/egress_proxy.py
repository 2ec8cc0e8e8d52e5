"""The only way out of a sandbox without a network: a proxy that knows which hosts are allowed.

The sandbox hands its listening sockets out (`sandbox_entry.py`), and they are served here, by the
factory: nothing in the sandbox has to be trusted, and nothing in it can reach further.
"""

import asyncio
import contextlib
import inspect
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from gigafactory.factory.process.spawn import Program
from gigafactory.factory.sandbox import entry as sandbox_entry
from gigafactory.factory.sandbox.allow_list import LOOPBACK, Destination
from gigafactory.factory.sandbox.egress import WaysOut
from gigafactory.factory.sandbox.http_proxy import HEAD_BYTES_MAX, CannotPass, Proxy
from gigafactory.factory.sandbox.tunnel import Ends, joined

CONNECTIONS_MAX = 256
"""At once, of one program; what comes beyond is closed."""
REFUSALS_TOLD_MAX = 50
PORT = 3128
"""Of the proxy, on the loopback that the sandbox has to itself."""

Tell = Callable[[str], None]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Gateway:
    """Serves one program in a sandbox, while the block lasts."""

    def __init__(self, ways: WaysOut, tell: Tell) -> None:
        """Let out what is allowed; `tell` hears once of each host that is not."""
        self._ways = ways
        self._tell = tell
        self._told: set[Destination] = set()
        self._proxy = Proxy(self._reach)
        self._forwards = ways.allowed.loopback_ports
        self._port = next(port for port in range(PORT, 65536) if port not in self._forwards)
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Be ready to take what the sandbox hands out."""
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)  # noqa: FBT003 - its name and its one argument say it
        self._taking = asyncio.create_task(self._take())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every way."""
        self._taking.cancel()
        await asyncio.wait({self._taking})
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        self._ours.close()
        self._theirs.close()

    def entered_by(self, program: Program) -> Program:
        """The same program, with the way out opened before it begins."""
        gate = self._theirs.fileno()
        ports = ",".join(str(port) for port in (self._port, *self._forwards))
        entry = (str(_interpreter()), "-I", "-S", "-c", inspect.getsource(sandbox_entry))
        return msgspec.structs.replace(
            program,
            argv=(*entry, str(gate), ports, *program.argv),
            env=proxied(program.env, self._port),
            inherited=(*program.inherited, gate),
        )

    async def _take(self) -> None:
        """Serve the sockets that the sandbox hands out; a program that never begins has none."""
        handed = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._ours, handed.set)
        try:
            await handed.wait()
        finally:
            loop.remove_reader(self._ours)
        ports = (None, *self._forwards)
        _, descriptors, _, _ = socket.recv_fds(self._ours, 1, len(ports))
        opened = [socket.socket(fileno=each) for each in descriptors]
        for listener, port in zip(opened, ports, strict=True):
            server = await asyncio.start_server(
                self._serving(port), sock=listener, limit=HEAD_BYTES_MAX
            )
            self._servers.append(server)

    def _serving(self, port: int | None) -> Serve:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None, "a connection is served by a task of its own"
            self._connections.add(task)
            try:
                if len(self._connections) <= CONNECTIONS_MAX:
                    await self._serve(Ends(reader, writer), port)
            finally:
                self._connections.discard(task)
                writer.close()

        return serve

    async def _serve(self, inside: Ends, port: int | None) -> None:
        with contextlib.suppress(OSError, CannotPass):
            if port is None:
                await self._proxy.serve(inside)
            else:
                await joined(inside, await self._reach(Destination(LOOPBACK, port)))

    async def _reach(self, to: Destination) -> Ends:
        try:
            return await self._ways.reach(to)
        except CannotPass as refused:
            if refused.forbidden and to not in self._told:
                self._note(to, str(refused))
            raise

    def _note(self, to: Destination, why: str) -> None:
        if len(self._told) < REFUSALS_TOLD_MAX:
            self._told.add(to)
            self._tell(why)


def proxied(env: Mapping[str, str], port: int) -> dict[str, str]:
    """The environment in which programs ask the proxy; what listens beside them needs none."""
    proxy, spared = f"http://{LOOPBACK}:{port}", f"localhost,{LOOPBACK},::1"
    names = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": spared}
    lower = {name.lower(): value for name, value in names.items()}
    # Node.js heeds the others only when it is told to.
    return {**env, **names, **lower, "NODE_USE_ENV_PROXY": "1"}


def needs() -> tuple[Path, ...]:
    """What a program that goes through a gateway must be able to read."""
    return (_interpreter(), Path(sys.base_prefix))


def _interpreter() -> Path:
    return Path(os.path.realpath(sys.executable))
