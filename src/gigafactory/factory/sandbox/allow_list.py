"""The list of hosts that a sandboxed program may reach, and the addresses that it never may."""

import ipaddress
import re
from collections.abc import Iterable

import msgspec

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.system.ip_addresses import IP, is_forbidden_ip

SETTING = "factory.allow-hosts"
WEB_PORTS = frozenset({80, 443})
"""The ports of an entry without a port."""
LOOPBACK = "127.0.0.1"
LOOPBACK_PORT_MIN = 1024
_WRITTEN = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]{1,5}))?")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}")
_NAME_CHARS_MAX = 253
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Destination(msgspec.Struct, frozen=True):
    """A host and port that a program asks for, in one spelling."""

    host: str
    port: int

    @staticmethod
    def parse(written: str, default_port: int | None = None) -> "Destination":
        """Parse `host:port`.

        Raises ValueError for anything else.
        """
        host, port = _split_port(written)
        if port is None and default_port is None:
            raise ValueError("expected a host and a port, such as example.com:443")
        return Destination(host, port or default_port or 0)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class AllowedHost(msgspec.Struct, frozen=True):
    """One entry of the list: a name, `*.` and a name, or an address; with or without a port."""

    host: str
    port: int | None = None

    def permits(self, to: Destination) -> bool:
        """Return whether the entry covers this destination."""
        ports = WEB_PORTS if self.port is None else {self.port}
        below = self.host.startswith("*.") and to.host.endswith(self.host[1:])
        return to.port in ports and (below or to.host == self.host)


class AllowList(msgspec.Struct, frozen=True):
    """The allowed hosts; all others are forbidden."""

    entries: tuple[AllowedHost, ...] = ()

    @staticmethod
    def parse(written: Iterable[str]) -> "AllowList":
        """Parse the list as people write it.

        Raises Invalid with all faults.
        """
        entries, faults = [], []
        for index, text in enumerate(written):
            try:
                entries.append(_entry(text))
            except ValueError as wrong:
                faults.append(Fault(f"{SETTING}[{index}]", f"found {text[:80]!r}; {wrong}"))
        if faults:
            raise Invalid("the configuration", faults)
        return AllowList(tuple(entries))

    @property
    def loopback_ports(self) -> tuple[int, ...]:
        """Return the allowed ports of this machine itself."""
        ports = {each.port for each in self.entries if each.host == LOOPBACK}
        return tuple(sorted(port for port in ports if port is not None))

    def permits(self, to: Destination) -> bool:
        """Return whether a program may ask for this host."""
        return any(entry.permits(to) for entry in self.entries)

    def permits_address(self, address: str, port: int) -> bool:
        """Return whether an allowed host may have this address.

        Addresses of this machine, of private networks and of a cloud's metadata service must be
        listed themselves: the owner of a DNS name could point it at them.
        """
        ip = ipaddress.ip_address(address.partition("%")[0])
        listed = (each for each in self.entries if each.host == str(ip))
        return is_public(ip) or any(each.port in {None, port} for each in listed)


def is_public(ip: IP) -> bool:
    """Return whether an address belongs to the public internet."""
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return ip.is_global and not is_forbidden_ip(ip)


def _entry(text: str) -> AllowedHost:
    below = text.startswith("*.")
    host, port = _split_port(text.removeprefix("*."))
    if below and (":" in host or host.rpartition(".")[2].isdecimal()):
        raise ValueError("expected a name after `*.`")
    if host == LOOPBACK and (port is None or port < LOOPBACK_PORT_MIN):
        raise ValueError(f"expected a port of this machine, from {LOOPBACK_PORT_MIN}")
    return AllowedHost(f"*.{host}" if below else host, port)


def _split_port(written: str) -> tuple[str, int | None]:
    match = _WRITTEN.fullmatch(written)
    port = int(match["port"]) if match and match["port"] else None
    if match is None or (port is not None and not 0 < port < 65536):  # noqa: PLR2004 - all ports
        raise ValueError("expected a host, with a port from 1 to 65535 or without")
    if match["v6"] is not None:
        return str(ipaddress.IPv6Address(match["v6"].partition("%")[0])), port
    name = match["name"].lower().removesuffix(".")
    if len(name) > _NAME_CHARS_MAX or not _NAME.fullmatch(name):
        raise ValueError("expected a name of letters, digits, dots and dashes, or an address")
    return LOOPBACK if name == "localhost" else name, port
