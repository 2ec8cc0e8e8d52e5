"""The host names of this coordinator, among them the private one of its pages."""

import re
import secrets
from pathlib import Path

from gigafactory.api.http.hosts import LOOPBACK, ServedHosts, host_of_url
from gigafactory.config.data_dir import LOOPBACK as LOOPBACK_ADDRESSES
from gigafactory.config.data_dir import PAGES_HOST, read_line
from gigafactory.config.settings import ServerSettings
from gigafactory.system.atomic_file import write_atomically

ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - read, not bound

_PRIVATE = re.compile(r"gigafactory-[0-9a-f]{16}\.localhost")


def ensure_pages_host(data: Path) -> str:
    """Return the host name of the pages on this machine, the same for as long as the data lives.

    Browsers resolve all of `*.localhost` to this machine, whatever the port. Another server on this
    machine could bring a browser to any name that it can guess, and would be sent the session.
    """
    file = data / PAGES_HOST
    name = read_line(file)
    if name is None or not _PRIVATE.fullmatch(name):
        name = f"gigafactory-{secrets.token_hex(8)}.localhost"
        write_atomically(file, f"{name}\n".encode(), mode=0o600)
    return name


def served_hosts(server: ServerSettings, local: str) -> ServedHosts:
    """Return the host names to serve."""
    given = {host.lower() for host in server.hosts}
    if server.public_url is not None:
        public = host_of_url(server.public_url)
        return ServedHosts(
            accepted=frozenset({*LOOPBACK, *given, public}),
            pages=frozenset({public}),
            public_url=server.public_url,
        )
    on_loopback = server.host in LOOPBACK_ADDRESSES
    reached = on_loopback or server.host in ANY_ADDRESS
    return ServedHosts(
        accepted=frozenset({*LOOPBACK, *given}) if on_loopback or given else None,
        pages=frozenset({local, *given} - LOOPBACK),
        local=local if reached else None,
    )
