"""Live pages: a part of a page is sent anew whenever it has changed, made once for all."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import NamedTuple

from litestar.types import ASGIApp

from gigafactory.api.http import sse
from gigafactory.api.http.request import ApiRequest
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.errors import Refused, Unavailable
from gigafactory.domain.tenancy.access import Caller

PAUSE_S = 0.05
"""A part is made at most so often; what happens meanwhile is in the next one."""
LOOK_AGAIN_S = 5.0
"""What changes with time alone, as who is offline, shows after so long."""
KEPT_MAX = 500


class Part(NamedTuple):
    """A part of a page as it is now, with what the tab says of it."""

    html: str
    title: str
    icon: str


class Away(NamedTuple):
    """Why there is no part at the moment; it comes again by itself."""

    reason: str


class Made(NamedTuple):
    """A part, and what rings when it is out of date."""

    bell: asyncio.Event
    at: float
    part: asyncio.Task[Part]


Make = Callable[[], Coroutine[None, None, Part]]
Key = tuple[str, ...]


class Parts:
    """Parts that are being made or were made last, by what they show to whom."""

    def __init__(self, index: Index) -> None:
        """Make parts anew when this index hears of something."""
        self._index = index
        self._made: OrderedDict[Key, Made] = OrderedDict()

    async def now(self, key: Key, make: Make) -> Part:
        """The part with all that has happened before this call; made once for all who ask."""
        moment = asyncio.get_running_loop().time()
        known = self._made.get(key)
        if known is None or known.bell.is_set() or moment - known.at > LOOK_AGAIN_S / 2:
            # The bell first: what happens while the part is made may be missing in it.
            known = Made(self._index.next_update, moment, asyncio.create_task(make()))
            self._made[key] = known
            self._made.move_to_end(key)
            if len(self._made) > KEPT_MAX:
                self._made.popitem(last=False)
        try:
            return await asyncio.shield(known.part)
        except Refused:
            # What went wrong may go right the next time.
            if self._made.get(key) is known:
                del self._made[key]
            raise

    async def follow(self, key: Key, make: Make) -> AsyncIterator[Part | Away | None]:
        """The part now, and again each time that it has changed; None for news of other things."""
        told: Part | Away | None = None
        while True:
            bell = self._index.next_update
            part = await self._now_or_away(key, make)
            yield part if part != told else None
            told = part
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await bell.wait()
            await asyncio.sleep(PAUSE_S)

    async def _now_or_away(self, key: Key, make: Make) -> Part | Away:
        try:
            return await self.now(key, make)
        except Unavailable as away:
            return Away(away.detail)


def scope(caller: Caller) -> Key:
    """What of a caller decides what a page shows."""
    return (caller.actor, str(caller.role), caller.product or "*", *caller.products)


async def shown(request: ApiRequest, caller: Caller, key: Key, make: Make) -> Part:
    """The part for a page that is asked for, shared with the pages that are open.

    The feed is read first: whoever has just done something sees it done.
    """
    await request.coordinator.index.catch_up()
    parts: Parts = request.app.state.parts
    return await parts.now((*key, *scope(caller)), make)


def stream(request: ApiRequest, caller: Caller, key: Key, make: Make) -> ASGIApp:
    """The answer that keeps a part of a page up to date, until the visitor's token ends."""
    parts: Parts = request.app.state.parts
    coordinator = request.coordinator

    async def told() -> AsyncIterator[bytes]:
        async for part in parts.follow((*key, *scope(caller)), make):
            match part:
                case Away():
                    # Who looks cannot be asked for either: nothing of the page is sent.
                    yield sse.frame(part._asdict(), event="away")
                case _ if not await coordinator.tokens.is_valid(caller):
                    yield sse.frame({"reason": "signed_out"}, event="signed_out")
                    return
                case Part():
                    yield sse.frame(part._asdict(), event="part")
                case None:
                    continue

    return sse.EventStream(told(), request.app.state.streams)
