"""The HTTP proxy that this machine itself must use where it has no direct network access."""

import asyncio
import base64
import contextlib
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import msgspec

from gigafactory.factory.sandbox.allow_list import Destination
from gigafactory.factory.sandbox.http_proxy import HEAD_BYTES_MAX, ProxyRefused
from gigafactory.factory.sandbox.tunnel import StreamPair

NAMES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


class UpstreamProxy(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP proxy; it resolves host names itself."""

    host: str
    port: int
    authorization: str | None = None
    no_proxy: str = ""
    """Hosts that are reached without it, as in `NO_PROXY`."""

    @staticmethod
    def from_environment(environ: Mapping[str, str]) -> "UpstreamProxy | None":
        """Return the proxy of an environment; None if it names none that speaks plain HTTP."""
        written = next((environ[name] for name in NAMES if environ.get(name)), "")
        try:
            url = urlsplit(written if "://" in written else f"http://{written}")
            port = url.port or 80
        except ValueError:
            return None
        if url.scheme != "http" or not url.hostname:
            return None
        login = f"{unquote(url.username or '')}:{unquote(url.password or '')}"
        credentials = base64.b64encode(login.encode()).decode()
        return UpstreamProxy(
            host=url.hostname,
            port=port,
            authorization=f"Basic {credentials}" if url.username else None,
            no_proxy=environ.get("no_proxy") or environ.get("NO_PROXY") or "",
        )

    def serves(self, host: str) -> bool:
        """Return whether a host is reached through it."""
        names = [each.strip().lower().partition(":")[0] for each in self.no_proxy.split(",")]
        below = [name.lstrip("*.") for name in names]
        return "*" not in names and not any(
            name and f".{host}".endswith(f".{name}") for name in below
        )

    async def connect(self, to: Destination) -> StreamPair:
        """Open a tunnel to a host.

        Raises ProxyRefused; OSError, EOFError or LimitOverrunError if the proxy does not answer.
        """
        outside = StreamPair(
            *await asyncio.open_connection(self.host, self.port, limit=HEAD_BYTES_MAX)
        )
        with contextlib.ExitStack() as undo:
            undo.callback(outside.writer.close)
            outside.writer.write(self._request(to))
            self._check(to, await outside.reader.readuntil(b"\r\n\r\n"))
            undo.pop_all()
        return outside

    def _check(self, to: Destination, answer: bytes) -> None:
        if answer.split(b" ", 2)[1:2] != [b"200"]:
            status_line = answer.partition(b"\r\n")[0].decode("latin-1")[:200]
            raise ProxyRefused(
                f"{to} cannot be reached: the proxy {self.host} says {status_line!r}"
            )

    def _request(self, to: Destination) -> bytes:
        lines = [f"CONNECT {to} HTTP/1.1", f"Host: {to}"]
        if self.authorization is not None:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")
