"""The coordinator process: socket, first admin token, published URL, shutdown."""

import asyncio
import gc
import getpass
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import structlog
from litestar import Litestar

from gigafactory.api.http.hosts import ServedHosts
from gigafactory.api.http.limits import RateLimiter
from gigafactory.config.data_dir import ADMIN_TOKEN, SERVER_LOCK, SERVER_URL, read_line
from gigafactory.config.loading import warnings
from gigafactory.config.settings import Config
from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.errors import Unauthenticated, Unavailable
from gigafactory.domain.tenancy.access import Caller, Role
from gigafactory.server.app import create_application
from gigafactory.server.connections import limits_within, raise_file_limit
from gigafactory.server.hosts import ensure_pages_host, served_hosts
from gigafactory.server.http_server import HttpServer
from gigafactory.system import logging as log
from gigafactory.system.atomic_file import write_atomically
from gigafactory.system.loop_watchdog import watch_loop
from gigafactory.wiring.coordinator import open_coordinator, wait_for_disk

GARBAGE_AFTER = 20_000
"""Net new objects that trigger a garbage collection."""


@dataclass(frozen=True)
class ServerReady:
    """Address and first token of a server that is ready."""

    url: str
    """For programs."""
    pages: str
    """For browsers."""
    token_file: Path
    login: str
    """URL that signs one browser in, once."""


def serve(
    config: Config,
    announce: Callable[[ServerReady], None],
    companion: Callable[[ServerReady], Coroutine[None, None, None]] | None = None,
    *,
    stop_with_companion: bool = False,
) -> None:
    """Serve until SIGTERM or SIGINT; call `announce` when ready.

    `companion` runs beside the server; with `stop_with_companion` the server stops when it ends.
    Raise Unavailable if the store or the port cannot be used.
    """
    log.configure(config.log.level, config.log.format)
    for warning in warnings(config):
        structlog.get_logger().warning("settings", warning=warning)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(config, announce, companion, stop_with_companion=stop_with_companion))


async def _serve(
    config: Config,
    announce: Callable[[ServerReady], None],
    companion: Callable[[ServerReady], Coroutine[None, None, None]] | None,
    *,
    stop_with_companion: bool,
) -> None:
    async with open_coordinator(config) as coordinator:
        token_file = await wait_for_disk(lambda: ensure_admin_token(coordinator, config.data))
        with _listen(config.server.host, config.server.port) as listener:
            url = _url(config.server.host, listener)
            hosts = served_hosts(config.server, ensure_pages_host(config.data))
            pages = hosts.pages_url("http", url.removeprefix("http://"))
            login = await wait_for_disk(lambda: _login_url(coordinator, token_file, pages))
            ready = ServerReady(url, pages, token_file, login)
            with _publish_url(config.data, ready.url) as advertise:
                app = _app(config, coordinator, hosts)
                tune_garbage_collection()
                limits = limits_within(raise_file_limit())
                server = HttpServer(app, limits=limits, stop=app.state.streams.close)
                companions: list[asyncio.Task[None]] = []

                def start_companion() -> None:
                    if companion is not None:
                        companions.append(asyncio.create_task(companion(ready)))
                        if stop_with_companion:
                            companions[0].add_done_callback(lambda _: server.end())

                server.when_ready(advertise, lambda: announce(ready), start_companion)
                server.before_stop(lambda: _cancel_all(companions))
                with watch_loop(coordinator.counters.count_loop_block):
                    await server.serve(sockets=[listener])


async def _cancel_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def tune_garbage_collection() -> None:
    """Collect garbage rarely, and never among loaded modules: requests leave few cycles."""
    gc.freeze()
    gc.set_threshold(GARBAGE_AFTER, 20, 100)


async def ensure_admin_token(coordinator: Coordinator, data: Path) -> Path:
    """Ensure that the data folder has a valid admin token, readable only by its owner."""
    file = data / ADMIN_TOKEN
    secret = read_line(file)
    if secret is not None:
        with suppress(Unauthenticated):
            await coordinator.tokens.caller(secret, product=None)
            return file
    start = Caller(actor="system:first-start", role=Role.ADMIN, products=("*",))
    made = await coordinator.tokens.issue(start, _user_name(), Role.ADMIN, ("*",))
    _write_line(file, made.secret)
    return file


async def _login_url(coordinator: Coordinator, token_file: Path, url: str) -> str:
    """Return a sign-in URL with a one-time code, never with the token."""
    caller = await coordinator.tokens.caller(read_line(token_file) or "", product=None)
    made = await coordinator.logins.issue_code(caller)
    return f"{url}/login?code={made.code}"


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "admin"


def _write_line(file: Path, line: str) -> None:
    write_atomically(file, f"{line}\n".encode(), mode=0o600)


@contextmanager
def _listen(host: str, port: int) -> Iterator[socket.socket]:
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
    """Return the URL of the socket for programs on this machine."""
    port = listener.getsockname()[1]
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not bound
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


@contextmanager
def _publish_url(data: Path, url: str) -> Iterator[Callable[[], None]]:
    """Yield a function that publishes the URL for local commands; remove it at the end."""
    file = data / SERVER_URL
    with _hold(data / SERVER_LOCK):
        try:
            yield lambda: _write_line(file, url)
        finally:
            if read_line(file) == url:
                file.unlink(missing_ok=True)


@contextmanager
def _hold(lock: Path) -> Iterator[None]:
    """Show local commands that a coordinator of this data folder runs, if they can look."""
    with ExitStack() as stack:
        # Without the file, commands trust the address.
        with suppress(OSError):
            opened = stack.enter_context(lock.open("a"))
            if sys.platform != "win32":
                import fcntl

                fcntl.flock(opened, fcntl.LOCK_SH)
        yield


def _app(config: Config, coordinator: Coordinator, hosts: ServedHosts) -> Litestar:
    limits = config.limits
    rates = RateLimiter(per_second=limits.requests_per_second, burst=limits.burst)
    return create_application(
        coordinator,
        hosts=hosts,
        rates=rates,
        metrics_open=config.server.metrics_open,
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
