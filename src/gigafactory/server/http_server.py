"""The HTTP server: uvicorn behind our own accept loop, which survives running out of files."""

import asyncio
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import structlog
import uvicorn
from litestar.types import ASGIApp

from gigafactory.server.connections import ConnectionLimits, OpenConnections
from gigafactory.server.guarded_protocol import BUSY, GuardedProtocol
from gigafactory.system.log_throttle import LogThrottle

STOP_WITHIN_S = 3
"""Seconds that open requests and streams get at shutdown."""
BACKLOG = 2048
ACCEPTED_AT_ONCE = 32
"""Connections that are accepted before requests get their turn."""
RETRY_ACCEPT_S = 0.1

log = structlog.get_logger()


def uvicorn_config(app: ASGIApp) -> uvicorn.Config:
    """Return the uvicorn settings."""
    return uvicorn.Config(
        app,
        http=GuardedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        # Longer than the heartbeat interval, so that factories keep their connections.
        timeout_keep_alive=75,
        timeout_graceful_shutdown=STOP_WITHIN_S,
    )


class HttpServer(uvicorn.Server):
    """A uvicorn server with start and stop hooks that leaves ending the process to us."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: ConnectionLimits | None = None,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        """Serve `app`; `stop` ends its streams, which do not end by themselves."""
        super().__init__(uvicorn_config(app))
        self.limits = limits or ConnectionLimits()
        self.open_connections = OpenConnections(self.limits)
        self._log = LogThrottle()
        self._stop = stop
        self._ready: tuple[Callable[[], None], ...] = ()
        self._before_stop: Callable[[], Coroutine[None, None, None]] | None = None
        self._acceptors: list[asyncio.Task[None]] = []

    def when_ready(self, *steps: Callable[[], None]) -> None:
        """Run these as soon as connections are accepted."""
        self._ready = steps

    def before_stop(self, step: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run this before connections are closed."""
        self._before_stop = step

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's
        """Stop soon. A second Ctrl-C changes nothing: the end takes a few seconds at most."""
        self.end()

    def end(self) -> None:
        """Stop soon."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on these bound sockets."""
        # Uvicorn itself accepts on none: it would run out of files in silence.
        await super().startup([])
        for listener in sockets or ():
            listener.listen(BACKLOG)
            listener.setblocking(False)  # noqa: FBT003 - its only argument
            self._acceptors.append(asyncio.create_task(self._accept(listener)))
        for step in self._ready:
            step()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, end streams, and give open requests a moment."""
        if self._before_stop is not None:
            await self._before_stop()
        await _cancel_all(self._acceptors)
        self._stop()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM while the server runs."""
        # uvicorn raises the signal again at the end, which would interrupt our own shutdown.
        before = {
            each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        accepted = 0
        while True:
            try:
                client, address = await loop.sock_accept(listener)
            except OSError as error:
                # Usually out of files. Connections wait until some are free again.
                self._log.warn("cannot accept connections", reason=error.strerror or str(error))
                await asyncio.sleep(RETRY_ACCEPT_S)
                continue
            accepted += 1
            if accepted % ACCEPTED_AT_ONCE == 0:
                await asyncio.sleep(0)
            if (reason := self.open_connections.refusal(address[0])) is not None:
                self._log.warn(reason, address=address[0])
                if not self.open_connections.make_room(address[0]):
                    _turn_away(client)
                    continue
            try:
                await loop.connect_accepted_socket(self._protocol, client)
            except OSError:
                client.close()

    def _protocol(self) -> GuardedProtocol:
        return GuardedProtocol(
            self.config,
            self.server_state,
            self.lifespan.state,
            limits=self.limits,
            open_connections=self.open_connections,
            log=self._log,
        )


def _turn_away(client: socket.socket) -> None:
    with suppress(OSError):
        client.setblocking(False)  # noqa: FBT003 - its only argument
        # Unread bytes would turn the end of the connection into an error at the client.
        with suppress(BlockingIOError):
            client.recv(1 << 16)
        client.send(BUSY.encode())
        client.shutdown(socket.SHUT_WR)
    client.close()


async def _cancel_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
