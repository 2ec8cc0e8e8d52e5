"""Judge IP addresses: which ones a host named by others must never resolve to."""

import ipaddress

IP = ipaddress.IPv4Address | ipaddress.IPv6Address

# Metadata services of clouds, which reveal a machine's secrets, besides the link-local ones.
_METADATA = frozenset({"100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"})
_THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")
_EMBEDDING = tuple(
    ipaddress.IPv6Network(each)
    for each in ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")
)
"""Networks whose addresses end in an IPv4 address: NAT64, IPv4-compatible and translated ones."""
_LOW_32_BITS = (1 << 32) - 1


def is_forbidden_ip(ip: IP) -> bool:
    """Return whether an IP address is this machine itself, or a cloud's metadata service."""
    if isinstance(ip, ipaddress.IPv6Address) and any(map(is_forbidden_ip, _embedded(ip))):
        return True
    return (
        ip.is_loopback
        or ip.is_link_local
        or ip.is_unspecified
        or ip.is_multicast
        or str(ip) in _METADATA
        or ip in _THIS_NETWORK
    )


def _embedded(ip: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """Return the IPv4 addresses that a gateway on the way would connect to."""
    embedded = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
    if any(ip in network for network in _EMBEDDING):
        embedded.append(ipaddress.IPv4Address(int(ip) & _LOW_32_BITS))
    return [each for each in embedded if each is not None]
