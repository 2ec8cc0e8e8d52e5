"""Looks a host up before git does, refuses what it must not reach, and pins what was found."""

import asyncio
import ipaddress
import socket

from gigafactory.factory.git.errors import RemoteAway
from gigafactory.factory.git.remote_url import Address, AddressRefused, is_unwanted

_LOOKUP_TIMEOUT_S = 20.0


async def pins(address: Address, *, proxied: bool) -> list[tuple[str, str]]:
    """Settings that hold git to the addresses that were looked at; a name may change its own.

    Behind a proxy it is the proxy that looks names up. Raises AddressRefused or RemoteAway.
    """
    if address.host is None or address.trusted or (proxied and address.scheme != "ssh"):
        return []
    try:
        found = await _looked_up(address.host, address.port)
    except RemoteAway:
        # A host that only the ssh configuration knows has no address to look at.
        if address.scheme == "ssh":
            return []
        raise
    for ip in found:
        if is_unwanted(ipaddress.ip_address(ip.partition("%")[0])):
            raise AddressRefused(
                f"{address.host} leads to {ip}, which is this machine or tells its secrets;"
                " name another host, or allow it by name"
            )
    if address.scheme not in {"https", "http"}:
        return []
    return [("http.curloptResolve", f"{address.host}:{address.port}:{','.join(found)}")]


async def _looked_up(host: str, port: int | None) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_LOOKUP_TIMEOUT_S):
            answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError) as error:
        raise RemoteAway(("ls-remote",), None, f"could not resolve host {host}: {error}") from None
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))
