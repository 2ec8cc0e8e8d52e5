"""The only way out of a sandbox without network access: a proxy to the allowed hosts.

The sandbox passes its listening sockets out (`entry.py`), and the factory serves them here: nothing
in the sandbox has to be trusted, and nothing in it can reach further.
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
from gigafactory.factory.sandbox.egress import Egress
from gigafactory.factory.sandbox.http_proxy import HEAD_BYTES_MAX, HttpProxyServer, ProxyRefused
from gigafactory.factory.sandbox.tunnel import StreamPair, join

CONNECTIONS_MAX = 256
"""Simultaneous connections of one program; more are closed."""
REFUSALS_REPORTED_MAX = 50
PORT = 3128
"""The proxy's port on the sandbox's own loopback interface."""

Report = Callable[[str], None]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class EgressProxy:
    """Serves one sandboxed program while the block lasts."""

    def __init__(self, egress: Egress, report: Report) -> None:
        """Let allowed traffic out; `report` is called once for each forbidden host."""
        self._egress = egress
        self._report = report
        self._reported: set[Destination] = set()
        self._proxy = HttpProxyServer(self._connect)
        self._forwards = egress.allowed.loopback_ports
        self._port = next(port for port in range(PORT, 65536) if port not in self._forwards)
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._factory_end, self._sandbox_end = socket.socketpair()
        self._factory_end.setblocking(False)  # noqa: FBT003 - its name and its one argument say it
        self._taking = asyncio.create_task(self._accept_sockets())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._taking.cancel()
        await asyncio.wait({self._taking})
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        self._factory_end.close()
        self._sandbox_end.close()

    def wrap(self, program: Program) -> Program:
        """Return the program, wrapped so that it opens its way out before it starts."""
        gate = self._sandbox_end.fileno()
        ports = ",".join(str(port) for port in (self._port, *self._forwards))
        entry = (str(_interpreter()), "-I", "-S", "-c", inspect.getsource(sandbox_entry))
        return msgspec.structs.replace(
            program,
            argv=(*entry, str(gate), ports, *program.argv),
            env=with_proxy(program.env, self._port),
            inherited_fds=(*program.inherited_fds, gate),
        )

    async def _accept_sockets(self) -> None:
        """Serve the sockets that the sandbox passes out; a program that never starts has none."""
        accepted = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._factory_end, accepted.set)
        try:
            await accepted.wait()
        finally:
            loop.remove_reader(self._factory_end)
        ports = (None, *self._forwards)
        _, descriptors, _, _ = socket.recv_fds(self._factory_end, 1, len(ports))
        opened = [socket.socket(fileno=each) for each in descriptors]
        for listener, port in zip(opened, ports, strict=True):
            server = await asyncio.start_server(
                self._serving(port), sock=listener, limit=HEAD_BYTES_MAX
            )
            self._servers.append(server)

    def _serving(self, port: int | None) -> Serve:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None, "each connection is served by its own task"
            self._connections.add(task)
            try:
                if len(self._connections) <= CONNECTIONS_MAX:
                    await self._serve(StreamPair(reader, writer), port)
            finally:
                self._connections.discard(task)
                writer.close()

        return serve

    async def _serve(self, inside: StreamPair, port: int | None) -> None:
        with contextlib.suppress(OSError, ProxyRefused):
            if port is None:
                await self._proxy.serve(inside)
            else:
                await join(inside, await self._connect(Destination(LOOPBACK, port)))

    async def _connect(self, to: Destination) -> StreamPair:
        try:
            return await self._egress.connect(to)
        except ProxyRefused as refused:
            if refused.forbidden and to not in self._reported:
                self._note(to, str(refused))
            raise

    def _note(self, to: Destination, why: str) -> None:
        if len(self._reported) < REFUSALS_REPORTED_MAX:
            self._reported.add(to)
            self._report(why)


def with_proxy(env: Mapping[str, str], port: int) -> dict[str, str]:
    """Return the environment in which programs use the proxy, except for the loopback."""
    proxy, no_proxy = f"http://{LOOPBACK}:{port}", f"localhost,{LOOPBACK},::1"
    names = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": no_proxy}
    lower = {name.lower(): value for name, value in names.items()}
    # Node.js respects the other variables only with this one.
    return {**env, **names, **lower, "NODE_USE_ENV_PROXY": "1"}


def required_paths() -> tuple[Path, ...]:
    """Return the paths that a program behind the proxy must be able to read."""
    return (_interpreter(), Path(sys.base_prefix))


def _interpreter() -> Path:
    return Path(os.path.realpath(sys.executable))
