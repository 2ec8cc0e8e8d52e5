"""The proxy that this machine itself has to go through, where it has no open network."""

import asyncio
import base64
import contextlib
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import msgspec

from gigafactory.factory.sandbox.allow_list import Destination
from gigafactory.factory.sandbox.http_proxy import HEAD_BYTES_MAX, CannotPass
from gigafactory.factory.sandbox.tunnel import Ends

NAMES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP proxy; it is the one that looks names up."""

    host: str
    port: int
    authorization: str | None = None
    spared: str = ""
    """Hosts that are reached without it, as in `NO_PROXY`."""

    @staticmethod
    def of(environ: Mapping[str, str]) -> "Upstream | None":
        """The proxy that an environment names; None without one that speaks plain HTTP."""
        written = next((environ[name] for name in NAMES if environ.get(name)), "")
        try:
            url = urlsplit(written if "://" in written else f"http://{written}")
            port = url.port or 80
        except ValueError:
            return None
        if url.scheme != "http" or not url.hostname:
            return None
        login = f"{unquote(url.username or '')}:{unquote(url.password or '')}"
        known = base64.b64encode(login.encode()).decode()
        return Upstream(
            host=url.hostname,
            port=port,
            authorization=f"Basic {known}" if url.username else None,
            spared=environ.get("no_proxy") or environ.get("NO_PROXY") or "",
        )

    def serves(self, host: str) -> bool:
        """Whether a host is reached through it."""
        names = [each.strip().lower().partition(":")[0] for each in self.spared.split(",")]
        below = [name.lstrip("*.") for name in names]
        return "*" not in names and not any(
            name and f".{host}".endswith(f".{name}") for name in below
        )

    async def reach(self, to: Destination) -> Ends:
        """A tunnel to a host.

        Raises CannotPass; OSError, EOFError or LimitOverrunError when the proxy does not answer.
        """
        outside = Ends(*await asyncio.open_connection(self.host, self.port, limit=HEAD_BYTES_MAX))
        with contextlib.ExitStack() as undo:
            undo.callback(outside.writer.close)
            outside.writer.write(self._request(to))
            self._check(to, await outside.reader.readuntil(b"\r\n\r\n"))
            undo.pop_all()
        return outside

    def _check(self, to: Destination, answer: bytes) -> None:
        if answer.split(b" ", 2)[1:2] != [b"200"]:
            said = answer.partition(b"\r\n")[0].decode("latin-1")[:200]
            raise CannotPass(f"{to} cannot be reached: the proxy {self.host} says {said!r}")

    def _request(self, to: Destination) -> bytes:
        lines = [f"CONNECT {to} HTTP/1.1", f"Host: {to}"]
        if self.authorization is not None:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")
