"""Audit page: who did what in the fleet, newest first."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec
from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.admin.audit import find_audit_events
from gigafactory.api.http.request import ApiRequest
from gigafactory.domain.job.change import FLEET
from gigafactory.domain.job.job import Event
from gigafactory.domain.tenancy.access import OWN_PRODUCTS
from gigafactory.web.site.live import Part, PartKey, current_part, stream_part
from gigafactory.web.site.rendering import render, render_page
from gigafactory.web.site.session import WebSession, require_session
from gigafactory.wire.admin import AuditQuery
from gigafactory.wire.fields import Cursor

DETAIL_CHARS_MAX = 200
"""Longer values are truncated; `aq audit` shows them in full."""


class AuditPageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of the log."""

    cursor: Cursor | None = None


class AuditRow(NamedTuple):
    """One event of the audit log."""

    event: Event
    details: Sequence[tuple[str, str]]

    @property
    def about(self) -> str:
        """The product, or `fleet`."""
        return "fleet" if self.event.product_id == FLEET else self.event.product_id

    @property
    def who(self) -> str:
        """The actor, without the prefix of users."""
        return self.event.actor.removeprefix("user:")


def _row(event: Event) -> AuditRow:
    # The actor and the product have their own columns.
    columns = (event.actor, event.product_id)
    details = ((key, value) for key, value in event.data.items() if value and value not in columns)
    return AuditRow(event, [(_label(key), _format_value(value)) for key, value in details])


def _label(key: str) -> str:
    return "".join(f" {each.lower()}" if each.isupper() else each for each in key)


def _format_value(value: object) -> str:
    text = str(value) if isinstance(value, str | int | float) else _json(value)
    return text if len(text) <= DETAIL_CHARS_MAX else f"{text[:DETAIL_CHARS_MAX]}…"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


async def _part(request: ApiRequest, session: WebSession, query: AuditPageQuery) -> Part:
    events, next_cursor = await find_audit_events(
        request, session.caller, AuditQuery(cursor=query.cursor)
    )
    html = render(
        "_audit.html",
        rows=[_row(event) for event in events],
        next_url=_page_url("/audit", next_cursor) if next_cursor else None,
        is_older_page=query.cursor is not None,
        product=session.caller.product,
        now=request.coordinator.clock.now(),
    )
    return Part(html, "Audit · Gigafactory", "/icon.svg")


def _page_url(path: str, cursor: str | None) -> str:
    return f"{path}?{urlencode({'cursor': cursor})}" if cursor else path


def _key(query: AuditPageQuery) -> PartKey:
    return ("audit", query.cursor or "")


@get("/audit")
async def audit_page(request: ApiRequest) -> ASGIApp:
    """Show a page of the audit log."""
    session = await require_session(request)
    session.caller.require("audit", OWN_PRODUCTS)
    query = request.query(AuditPageQuery)
    part = await current_part(
        request, session.caller, _key(query), lambda: _part(request, session, query)
    )
    live = _page_url("/live/audit", query.cursor)
    return render_page(request, session, "live.html", part=part, live=live)


@get("/live/audit")
async def live_audit(request: ApiRequest) -> ASGIApp:
    """Stream updates of the page."""
    session = await require_session(request)
    # Check here: a stream cannot be refused after it has started.
    session.caller.require("audit", OWN_PRODUCTS)
    query = request.query(AuditPageQuery)
    await _part(request, session, query)
    key = _key(query)
    return stream_part(request, session.caller, key, lambda: _part(request, session, query))


ROUTES = (audit_page, live_audit)
