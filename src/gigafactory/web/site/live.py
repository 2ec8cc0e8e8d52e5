"""Live updates: a changed part of a page is rendered once and sent to every open page."""

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

MIN_INTERVAL_S = 0.05
"""Minimum interval between two renderings of a part."""
REFRESH_INTERVAL_S = 5.0
"""Interval at which a part is rendered without a change, to show effects of time alone."""
CACHED_MAX = 500


class Part(NamedTuple):
    """The HTML of a live part, with the title and icon of the browser tab."""

    html: str
    title: str
    icon: str


class PartUnavailable(NamedTuple):
    """The reason why a part cannot be rendered at the moment."""

    reason: str


class CachedPart(NamedTuple):
    """A part that is rendered or being rendered, and the event that outdates it."""

    outdated: asyncio.Event
    rendered_at: float
    part: asyncio.Task[Part]


RenderPart = Callable[[], Coroutine[None, None, Part]]
PartKey = tuple[str, ...]


class PartCache:
    """The latest parts, by content and by the access of their readers."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._cached: OrderedDict[PartKey, CachedPart] = OrderedDict()

    async def get(self, key: PartKey, render: RenderPart) -> Part:
        """Return the part with all changes so far; concurrent calls share one rendering."""
        now = asyncio.get_running_loop().time()
        cached = self._cached.get(key)
        if (
            cached is None
            or cached.outdated.is_set()
            or now - cached.rendered_at > REFRESH_INTERVAL_S / 2
        ):
            # Get the event first: the part may miss changes that happen while it is rendered.
            cached = CachedPart(self._index.next_update, now, asyncio.create_task(render()))
            self._cached[key] = cached
            self._cached.move_to_end(key)
            if len(self._cached) > CACHED_MAX:
                self._cached.popitem(last=False)
        try:
            return await asyncio.shield(cached.part)
        except Refused:
            # Do not cache failures.
            if self._cached.get(key) is cached:
                del self._cached[key]
            raise

    async def follow(
        self, key: PartKey, render: RenderPart
    ) -> AsyncIterator[Part | PartUnavailable | None]:
        """Yield the part now and after each change; None for a change that does not affect it."""
        last: Part | PartUnavailable | None = None
        while True:
            update = self._index.next_update
            part = await self._get_or_unavailable(key, render)
            yield part if part != last else None
            last = part
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_INTERVAL_S):
                    await update.wait()
            await asyncio.sleep(MIN_INTERVAL_S)

    async def _get_or_unavailable(self, key: PartKey, render: RenderPart) -> Part | PartUnavailable:
        try:
            return await self.get(key, render)
        except Unavailable as outage:
            return PartUnavailable(outage.detail)


def access_key(caller: Caller) -> PartKey:
    """Return the properties of a caller that determine what it can see."""
    return (caller.actor, str(caller.role), caller.product or "*", *caller.products)


async def current_part(
    request: ApiRequest, caller: Caller, key: PartKey, render: RenderPart
) -> Part:
    """Return the part for a page request, shared with all open pages.

    The change feed is read first, so that users see the effect of what they just did.
    """
    await request.coordinator.index.catch_up()
    parts: PartCache = request.app.state.parts
    return await parts.get((*key, *access_key(caller)), render)


def stream_part(request: ApiRequest, caller: Caller, key: PartKey, render: RenderPart) -> ASGIApp:
    """Stream a part and its updates until the session ends."""
    parts: PartCache = request.app.state.parts
    coordinator = request.coordinator

    async def frames() -> AsyncIterator[bytes]:
        async for part in parts.follow((*key, *access_key(caller)), render):
            match part:
                case PartUnavailable():
                    # The token cannot be checked during an outage, so no part is sent.
                    yield sse.frame(part._asdict(), event="away")
                case _ if not await coordinator.tokens.is_valid(caller):
                    yield sse.frame({"reason": "signed_out"}, event="signed_out")
                    return
                case Part():
                    yield sse.frame(part._asdict(), event="part")
                case None:
                    continue

    return sse.EventStream(frames(), request.streams_of(caller))
