"""How an allowed host is reached: looked up, judged by its address, and connected to just there."""

import asyncio
import socket

import msgspec

from gigafactory.factory.sandbox.allow_list import LOOPBACK, SETTING, AllowList, Destination
from gigafactory.factory.sandbox.http_proxy import HEAD_BYTES_MAX, CannotPass
from gigafactory.factory.sandbox.tunnel import Ends
from gigafactory.factory.sandbox.upstream_proxy import Upstream

LOOKUP_S_MAX = 20.0
CONNECT_S_MAX = 20.0
UPSTREAM_S_MAX = 60.0
ADDRESSES_MAX = 8


class WaysOut(msgspec.Struct, frozen=True):
    """What leads out of a sandbox of this factory."""

    allowed: AllowList = AllowList()
    upstream: Upstream | None = None
    """What this machine itself goes through."""

    async def reach(self, to: Destination) -> Ends:
        """A connection to a host that is allowed.

        Raises CannotPass.
        """
        if not self.allowed.permits(to):
            raise _forbidden(to, f"{SETTING} does not name it")
        if self.upstream is not None and to.host != LOOPBACK and self.upstream.serves(to.host):
            return await _through(self.upstream, to)
        found = await _looked_up(to)
        good = [each for each in found if self.allowed.reaches(each, to.port)]
        if not good:
            raise _forbidden(
                to,
                f"it is at {found[0]}, which is no public address; {SETTING} does not name that",
            )
        return await _first(good[:ADDRESSES_MAX], to)


def _forbidden(to: Destination, why: str) -> CannotPass:
    said = f"the sandbox lets nothing through to {to}: {why}"
    return CannotPass(said, status="403 Forbidden")


async def _through(upstream: Upstream, to: Destination) -> Ends:
    try:
        async with asyncio.timeout(UPSTREAM_S_MAX):
            return await upstream.reach(to)
    except (OSError, EOFError, asyncio.LimitOverrunError) as trouble:
        raise CannotPass(f"{to} cannot be reached: the proxy {upstream.host}: {trouble}") from None


async def _first(addresses: list[str], to: Destination) -> Ends:
    trouble: OSError | None = None
    for address in addresses:
        try:
            return await _connected(address, to.port)
        except OSError as error:
            trouble = error
    raise CannotPass(f"{to} cannot be reached: {trouble or 'it does not answer'}")


async def _connected(address: str, port: int) -> Ends:
    # A time that runs out is an OSError too.
    async with asyncio.timeout(CONNECT_S_MAX):
        return Ends(*await asyncio.open_connection(address, port, limit=HEAD_BYTES_MAX))


async def _looked_up(to: Destination) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOKUP_S_MAX):
            answers = await loop.getaddrinfo(to.host, to.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise CannotPass(f"{to.host} has no address: {error}") from None
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))
