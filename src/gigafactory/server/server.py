"""The coordinator as a process: its socket, its first token, its address, and how it stops."""

import asyncio
import gc
import getpass
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import structlog
import uvicorn
from litestar import Litestar

from gigafactory.api.http.limits import RateLimiter
from gigafactory.api.http.middleware import LOOPBACK
from gigafactory.config.data_dir import ADMIN_TOKEN, SERVER_URL, read_line
from gigafactory.config.loading import warnings
from gigafactory.config.settings import Config, ServerSettings
from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.errors import Unauthenticated, Unavailable
from gigafactory.domain.tenancy.access import Caller, Role
from gigafactory.server.app import application
from gigafactory.server.uvicorn_protocol import SingleWrite
from gigafactory.system import logging as log
from gigafactory.system.atomic_file import write_atomically
from gigafactory.wiring.coordinator import open_coordinator

GARBAGE_AFTER = 20_000
"""So many more objects than were freed set the collector going."""
STOP_WITHIN_S = 3
"""How long a request or a stream may go on once the process was told to stop."""
BACKLOG = 2048


@dataclass(frozen=True)
class Ready:
    """What somebody who waits for the server wants to know."""

    url: str
    token_file: Path
    login: str
    """An address that signs one browser in, once."""


def serve(
    config: Config,
    announce: Callable[[Ready], None],
    beside: Callable[[Ready], Coroutine[None, None, None]] | None = None,
    *,
    ends_with_it: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT, then let open requests end; `announce` is called when ready.

    What `beside` gives is done from then on, for as long as the server serves; with `ends_with_it`,
    the server ends when that does.
    Raises Unavailable when the store or the port cannot be used.
    """
    log.configure(config.log.level, config.log.format)
    for doubt in warnings(config):
        structlog.get_logger().warning("settings", doubt=doubt)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(config, announce, beside, ends_with_it=ends_with_it))


async def _serve(
    config: Config,
    announce: Callable[[Ready], None],
    beside: Callable[[Ready], Coroutine[None, None, None]] | None,
    *,
    ends_with_it: bool,
) -> None:
    async with open_coordinator(config) as coordinator:
        token_file = await ensure_admin_token(coordinator, config.data)
        with _listening(config.server.host, config.server.port) as listener:
            url = _url(config.server.host, listener)
            ready = Ready(url, token_file, await _login_address(coordinator, token_file, url))
            with _advertised(config.data, ready.url) as advertise:
                app = _app(config, coordinator)
                settle_down()
                server = _Server(uvicorn_config(app), stop=app.state.streams.close)
                companions: list[asyncio.Task[None]] = []

                def accompany() -> None:
                    if beside is not None:
                        companions.append(asyncio.create_task(beside(ready)))
                        if ends_with_it:
                            companions[0].add_done_callback(lambda _: server.end())

                server.when_ready(advertise, lambda: announce(ready), accompany)
                server.before_stop(lambda: _end(companions))
                await server.serve(sockets=[listener])


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    """End what was done beside the server, while the server still answers it."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def settle_down() -> None:
    """Look for garbage rarely, and never among what was loaded: requests leave few cycles."""
    gc.freeze()
    gc.set_threshold(GARBAGE_AFTER, 20, 100)


async def ensure_admin_token(coordinator: Coordinator, data: Path) -> Path:
    """Keep a token of the user who runs this in a file that only that user can read."""
    file = data / ADMIN_TOKEN
    secret = read_line(file)
    if secret is not None:
        with suppress(Unauthenticated):
            await coordinator.tokens.caller(secret, product=None)
            return file
    start = Caller(actor="system:first-start", role=Role.ADMIN, products=("*",))
    made = await coordinator.tokens.issue(start, _login(), Role.ADMIN, ("*",))
    _write_line(file, made.secret)
    return file


async def _login_address(coordinator: Coordinator, token_file: Path, url: str) -> str:
    """Where a browser signs in as whoever may read the token's file; never with the token."""
    caller = await coordinator.tokens.caller(read_line(token_file) or "", product=None)
    made = await coordinator.logins.issue_code(caller)
    return f"{url}/login?code={made.code}"


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "admin"


def _write_line(file: Path, line: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    write_atomically(file, f"{line}\n".encode(), mode=0o600)


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {host}:{port}: {error.strerror or error};"
                " choose another port with --port or AQ_PORT"
            ) from None
        yield listener


def _url(host: str, listener: socket.socket) -> str:
    """The address at which programs on this machine reach the socket."""
    port = listener.getsockname()[1]
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not bound
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


@contextmanager
def _advertised(data: Path, url: str) -> Iterator[Callable[[], None]]:
    """A way to leave the address where commands on this machine find it, for this block."""
    file = data / SERVER_URL
    try:
        yield lambda: _write_line(file, url)
    finally:
        if read_line(file) == url:
            file.unlink(missing_ok=True)


def _hosts(server: ServerSettings) -> set[str] | None:
    """The names that it answers to: a page from elsewhere must not reach it under another one."""
    on_loopback = server.host in {"127.0.0.1", "localhost", "::1"}
    return {*LOOPBACK, *server.hosts} if on_loopback or server.hosts else None


def _app(config: Config, coordinator: Coordinator) -> Litestar:
    limits = config.limits
    rates = RateLimiter(per_second=limits.requests_per_second, burst=limits.burst)
    return application(
        coordinator,
        hosts=_hosts(config.server),
        rates=rates,
        metrics_open=config.server.metrics_open,
    )


def uvicorn_config(app: Litestar) -> uvicorn.Config:
    """How the application is served; a bare one that is measured beside it is served so too."""
    return uvicorn.Config(
        app,
        http=SingleWrite,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        # Longer than a heartbeat takes to come, so that factories keep their connections.
        timeout_keep_alive=75,
        backlog=BACKLOG,
        timeout_graceful_shutdown=STOP_WITHIN_S,
    )


class _Server(uvicorn.Server):
    """Tells when it is ready, and leaves ending the process to whoever opened the store."""

    _ready: tuple[Callable[[], None], ...] = ()
    _before_stop: Callable[[], Coroutine[None, None, None]] | None = None

    def __init__(self, config: uvicorn.Config, *, stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._stop = stop

    def when_ready(self, *steps: Callable[[], None]) -> None:
        self._ready = steps

    def before_stop(self, step: Callable[[], Coroutine[None, None, None]]) -> None:
        self._before_stop = step

    def end(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            for step in self._ready:
                step()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._before_stop is not None:
            await self._before_stop()
        # Streams end by themselves only when they are told to.
        self._stop()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The parent raises the signal again at the end, which would cut our own closing short.
        before = {
            each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
