"""Connects to an allowed host: resolves it, checks the address, connects to exactly that."""

import asyncio
import socket

import msgspec

from gigafactory.factory.sandbox.allow_list import LOOPBACK, SETTING, AllowList, Destination
from gigafactory.factory.sandbox.http_proxy import HEAD_BYTES_MAX, ProxyRefused
from gigafactory.factory.sandbox.tunnel import StreamPair
from gigafactory.factory.sandbox.upstream_proxy import UpstreamProxy

LOOKUP_S_MAX = 20.0
CONNECT_S_MAX = 20.0
UPSTREAM_S_MAX = 60.0
ADDRESSES_MAX = 8


class Egress(msgspec.Struct, frozen=True):
    """What a sandboxed program may reach, and how."""

    allowed: AllowList = AllowList()
    upstream: UpstreamProxy | None = None
    """The proxy that this machine itself uses."""

    async def connect(self, to: Destination) -> StreamPair:
        """Connect to an allowed host.

        Raises ProxyRefused.
        """
        if not self.allowed.permits(to):
            raise _forbidden(to, f"{SETTING} does not name it")
        if self.upstream is not None and to.host != LOOPBACK and self.upstream.serves(to.host):
            return await _connect_upstream(self.upstream, to)
        addresses = await _resolve(to)
        good = [each for each in addresses if self.allowed.permits_address(each, to.port)]
        if not good:
            raise _forbidden(
                to,
                f"its address {addresses[0]} is not public, and {SETTING} does not name it",
            )
        return await _connect_first(good[:ADDRESSES_MAX], to)


def _forbidden(to: Destination, why: str) -> ProxyRefused:
    message = f"the sandbox blocks {to}: {why}"
    return ProxyRefused(message, status="403 Forbidden")


async def _connect_upstream(upstream: UpstreamProxy, to: Destination) -> StreamPair:
    try:
        async with asyncio.timeout(UPSTREAM_S_MAX):
            return await upstream.connect(to)
    except (OSError, EOFError, asyncio.LimitOverrunError) as trouble:
        raise ProxyRefused(
            f"{to} cannot be reached: the proxy {upstream.host}: {trouble}"
        ) from None


async def _connect_first(addresses: list[str], to: Destination) -> StreamPair:
    last_error: OSError | None = None
    for address in addresses:
        try:
            return await _connect(address, to.port)
        except OSError as error:
            last_error = error
    raise ProxyRefused(f"{to} cannot be reached: {last_error or 'it does not answer'}")


async def _connect(address: str, port: int) -> StreamPair:
    # A timeout is an OSError, too.
    async with asyncio.timeout(CONNECT_S_MAX):
        return StreamPair(*await asyncio.open_connection(address, port, limit=HEAD_BYTES_MAX))


async def _resolve(to: Destination) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOKUP_S_MAX):
            answers = await loop.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ProxyRefused(f"{to.host} has no address: {error}") from None
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))
