"""Resolves a host before git does, refuses forbidden addresses, pins git to the checked ones."""

import asyncio
import ipaddress
import socket

from gigafactory.factory.git.errors import RemoteUnavailable
from gigafactory.factory.git.remote_url import AddressRefused, RemoteAddress, is_forbidden_ip

_LOOKUP_TIMEOUT_S = 20.0


async def pin_addresses(address: RemoteAddress, *, proxied: bool) -> list[tuple[str, str]]:
    """Return settings that pin git to the addresses that were checked; DNS may change meanwhile.

    Behind a proxy it is the proxy that resolves names. Raises AddressRefused or RemoteUnavailable.
    """
    if address.host is None or address.trusted or (proxied and address.scheme != "ssh"):
        return []
    try:
        found = await _looked_up(address.host, address.port)
    except RemoteUnavailable:
        # A host that only the ssh configuration knows has no address to check.
        if address.scheme == "ssh":
            return []
        raise
    for ip in found:
        if is_forbidden_ip(ipaddress.ip_address(ip.partition("%")[0])):
            raise AddressRefused(
                f"{address.host} resolves to {ip}, which is this machine or a metadata service;"
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
        raise RemoteUnavailable(
            ("ls-remote",), None, f"could not resolve host {host}: {error}"
        ) from None
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))
