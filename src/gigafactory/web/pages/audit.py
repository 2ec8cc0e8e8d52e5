"""The page of the audit log: who did what in the fleet, newest first."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from urllib.parse import urlencode

import msgspec
from litestar import get
from litestar.types import ASGIApp
from msgspec import Meta

from gigafactory.api.admin.audit import AuditPage, find_audit_events
from gigafactory.api.http.request import ApiRequest
from gigafactory.domain.job.change import FLEET
from gigafactory.domain.job.job import Event
from gigafactory.web.site.live import Key, Part, shown, stream
from gigafactory.web.site.rendering import page, rendered
from gigafactory.web.site.session import Visit, visit

DETAIL_CHARS_MAX = 200
"""What is longer is read with `aq audit`."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of the log."""

    cursor: Annotated[str, Meta(max_length=1000)] | None = None


class Line(NamedTuple):
    """One event as the page tells it."""

    event: Event
    details: Sequence[tuple[str, str]]

    @property
    def about(self) -> str:
        """The product that it concerns."""
        return "fleet" if self.event.product_id == FLEET else self.event.product_id

    @property
    def who(self) -> str:
        """Whoever did it."""
        return self.event.actor.removeprefix("user:")


def _line(event: Event) -> Line:
    # Who did it, and to which product, have columns of their own.
    told = (event.actor, event.product_id)
    given = ((key, value) for key, value in event.data.items() if value and value not in told)
    return Line(event, [(_words(key), _written(value)) for key, value in given])


def _words(key: str) -> str:
    """The name of a field as people write it."""
    return "".join(f" {each.lower()}" if each.isupper() else each for each in key)


def _written(value: object) -> str:
    text = str(value) if isinstance(value, str | int | float) else _json(value)
    return text if len(text) <= DETAIL_CHARS_MAX else f"{text[:DETAIL_CHARS_MAX]}…"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


async def _part(request: ApiRequest, visitor: Visit, asked: Asked) -> Part:
    events, following = await find_audit_events(
        request, visitor.caller, AuditPage(cursor=asked.cursor)
    )
    html = rendered(
        "_audit.html",
        lines=[_line(event) for event in events],
        next=_address("/audit", following) if following else None,
        older=asked.cursor is not None,
        product=visitor.caller.product,
        now=request.coordinator.clock.now(),
    )
    return Part(html, "Audit · Gigafactory", "/icon.svg")


def _address(place: str, cursor: str | None) -> str:
    return f"{place}?{urlencode({'cursor': cursor})}" if cursor else place


def _key(asked: Asked) -> Key:
    return ("audit", asked.cursor or "")


@get("/audit")
async def audit_page(request: ApiRequest) -> ASGIApp:
    """Show a part of the log."""
    visitor = await visit(request)
    visitor.caller.require("audit")
    asked = request.query(Asked)
    part = await shown(request, visitor.caller, _key(asked), lambda: _part(request, visitor, asked))
    live = _address("/live/audit", asked.cursor)
    return page(request, visitor, "live.html", part=part, live=live)


@get("/live/audit")
async def live_audit(request: ApiRequest) -> ASGIApp:
    """Keep it up to date."""
    visitor = await visit(request)
    # A stream that has begun cannot be refused any more.
    visitor.caller.require("audit")
    asked = request.query(Asked)
    await _part(request, visitor, asked)
    key = _key(asked)
    return stream(request, visitor.caller, key, lambda: _part(request, visitor, asked))


ROUTES = (audit_page, live_audit)
