"""Limits of what clients may hold open, and the register of open connections."""

import ipaddress
import sys
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

FILES_WANTED = 65_536
"""Enough for any fleet; macOS refuses more."""
FILES_SPARE_MIN, FILES_SPARE_MAX = 128, 1024
"""Open files that are left for the store, blobs, logs and the local factory."""
_V6_NETWORK_BITS = 64


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """What a client may hold open before it has proved anything."""

    connections: int = 768
    """Open connections in all."""
    per_address: int = 384
    """Open connections of one address; a reverse proxy is one address."""
    head_bytes: int = 128 << 10
    """Request line and headers; also what may pass between two pieces of a body.

    Machine shapes in the query of `GET /scaling` may be long.
    """
    headers: int = 100
    head_s: float = 10.0
    """Seconds from the first byte (or the connection) to the end of the headers."""
    body_s: float = 20.0
    """Seconds in which a body must bring `body_bytes` more."""
    body_bytes: int = 1024
    send_s: float = 60.0
    """Seconds in which a client must make room for a response that waits for it."""
    last_piece_s: float = 120.0
    """Seconds in which such a client must read the end of its stream."""
    pipelined: int = 16
    """Requests that wait for the response to the one before."""
    unread_bytes: int = 16 << 20
    """Rest of a body that is thrown away after its response; more ends the connection."""


def limits_within(files: int) -> ConnectionLimits:
    """Return the limits for a process that may open this many files."""
    spare = max(FILES_SPARE_MIN, min(FILES_SPARE_MAX, files // 4))
    connections = max(16, files - spare)
    return ConnectionLimits(connections=connections, per_address=max(8, connections // 2))


def raise_file_limit() -> int:
    """Allow this process as many open files as it may have; return the number."""
    if sys.platform == "win32":
        return FILES_WANTED
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, FILES_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            # Some systems have a lower limit than they report.
            return soft
        return wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


class ClientConnection(Protocol):
    """An open connection."""

    def is_known(self) -> bool:
        """Return whether a request on it has proved who sent it."""

    def make_way(self) -> None:
        """End at once: another client needs the place."""


class OpenConnections:
    """Counts open connections, in all and by address, and ends those of strangers when full.

    Without that, clients that send half requests would lock everybody out until they time out.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._by_network: Counter[str] = Counter()
        self._all = 0
        # Ordered by age, without those that were found to be known.
        self._strangers: dict[ClientConnection, str] = {}
        self._strangers_of: defaultdict[str, dict[ClientConnection, None]] = defaultdict(dict)

    def refusal(self, address: str) -> str | None:
        """Return why another connection of this address is refused; None if it is not."""
        if self._all >= self._limits.connections:
            return "too many connections are open"
        if self._by_network[_network(address)] >= self._limits.per_address:
            return "too many connections of one address are open"
        return None

    def make_room(self, address: str) -> bool:
        """End the oldest connection of a stranger; return whether there was one.

        It is one of the same address if that has too many.
        """
        network = _network(address)
        own = self._by_network[network] >= self._limits.per_address
        candidates: Collection[ClientConnection] = (
            self._strangers_of.get(network, {}) if own else self._strangers
        )
        while (oldest := next(iter(candidates), None)) is not None:
            self._forget_stranger(oldest)
            if not oldest.is_known():
                oldest.make_way()
                return True
        return False

    def add(self, address: str, connection: ClientConnection) -> None:
        """Count a connection that was opened."""
        network = _network(address)
        self._by_network[network] += 1
        self._all += 1
        self._strangers[connection] = network
        self._strangers_of[network][connection] = None

    def _forget_stranger(self, connection: ClientConnection) -> None:
        network = self._strangers.pop(connection, None)
        if network is None:
            return
        of_network = self._strangers_of[network]
        del of_network[connection]
        if not of_network:
            del self._strangers_of[network]

    def remove(self, address: str, connection: ClientConnection) -> None:
        """Forget a connection that was closed."""
        self._forget_stranger(connection)
        network = _network(address)
        self._by_network[network] -= 1
        if not self._by_network[network]:
            del self._by_network[network]
        self._all -= 1

    def __len__(self) -> int:
        """Return the number of open connections."""
        return self._all


def _network(address: str) -> str:
    """Return the address, or its network where one machine has a whole network of addresses."""
    if ":" not in address:
        return address
    try:
        ip = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.IPv6Network((ip, _V6_NETWORK_BITS), strict=False))
