"""Served host names: the API under every accepted one, the pages only under their own.

Cookies know no ports: whatever else listens on 127.0.0.1, such as the preview server of a job,
would receive the session of a browser that is signed in there.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Host names of a coordinator that listens on this machine only."""

_PORT = re.compile(r":\d{1,5}$")
_ADDRESS = re.compile(r"\[.*|(?:.*\.)?(?:\d+|0x[0-9a-f]*)")
_FOR_PROGRAMS = frozenset({"/api", "/healthz", "/readyz", "/metrics"})


@dataclass(frozen=True, kw_only=True)
class ServedHosts:
    """The host names that a coordinator serves."""

    accepted: frozenset[str] | None = None
    """Names of the API; None for any."""
    pages: frozenset[str] = frozenset()
    """Names of the pages."""
    local: str | None = None
    """The one among them for browsers on this machine."""
    public_url: str | None = None
    """The URL at which people reach the pages, if an admin has set one."""

    def serves(self, name: str) -> bool:
        """Return whether anything is served under this name; prevents DNS rebinding."""
        return self.accepted is None or name in self.accepted or name in self.pages

    def serves_pages(self, name: str) -> bool:
        """Return whether pages are served under this name."""
        if name in self.pages:
            return True
        return self.accepted is None and self.public_url is None and _is_own_name(name)

    def pages_url(self, scheme: str, host: str) -> str:
        """Return the URL of the pages for a caller that reached us as `host`."""
        if self.public_url is not None:
            return self.public_url
        name = host_name(host.encode("latin-1"))
        if not self.serves_pages(name) and self.local is not None:
            return f"{scheme}://{self.local}{host[len(name) :]}"
        return f"{scheme}://{host}"

    def api_url(self, scheme: str, host: str) -> str:
        """Return the URL for programs, which do not resolve `*.localhost` as browsers do."""
        if self.public_url is not None:
            return self.public_url
        name = host_name(host.encode("latin-1"))
        if name.endswith(".localhost"):
            return f"{scheme}://127.0.0.1{host[len(name) :]}"
        return f"{scheme}://{host}"


def is_for_programs(path: str) -> bool:
    """Return whether a path belongs to the API and not to the pages."""
    return path.startswith("/api/") or path in _FOR_PROGRAMS


@lru_cache(maxsize=256)
def host_name(host: bytes | None) -> str:
    """Return the name in a Host header, without its port."""
    return _PORT.sub("", (host or b"").decode("latin-1").lower())


def host_of_url(url: str) -> str:
    """Return the host name of a URL as a Host header has it."""
    return host_name(urlsplit(url).netloc.encode("latin-1", "replace"))


def _is_own_name(name: str) -> bool:
    """Return whether a name can belong to the pages alone: an address is shared by all ports."""
    plain = name.rstrip(".")
    return (
        bool(plain)
        and plain != "localhost"
        and not plain.endswith(".localhost")
        and not _ADDRESS.fullmatch(plain)
    )
