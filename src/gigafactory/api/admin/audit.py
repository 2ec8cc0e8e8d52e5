"""Audit log endpoint."""

from collections.abc import Sequence

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.http.cursor import decode_cursor, encode_cursor
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.api.render import jobs as views
from gigafactory.coordinator.core.audit import visible_products
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job.job import Event
from gigafactory.domain.tenancy.access import Caller
from gigafactory.wire.admin import AuditQuery, AuditView

TAG = "Audit"


@get("/audit", opt=operation(TAG, query=AuditQuery, responses={200: Body(of=AuditView)}))
async def audit(request: ApiRequest) -> ASGIApp:
    """Read the audit log: changes of halts, tokens, factories, profiles and products."""
    events, next_cursor = await find_audit_events(
        request, await request.caller(), request.query(AuditQuery)
    )
    return json_response(
        AuditView(
            events=tuple(views.render_event(event) for event in events), next_cursor=next_cursor
        )
    )


async def find_audit_events(
    request: ApiRequest, caller: Caller, page: AuditQuery
) -> tuple[Sequence[Event], str | None]:
    """Return a page of audit events and the cursor of the next page, or None.

    Raises Forbidden, Invalid.
    """
    query = ("audit", visible_products(caller), page.limit)
    before = _position(decode_cursor(page.cursor, query))
    events = await request.coordinator.audit.page(caller, before=before, limit=page.limit)
    if len(events) < page.limit:
        return events, None
    return events, encode_cursor(str(events[-1].position), query)


def _position(last: str | None) -> int | None:
    if last is None:
        return None
    if not last.isdecimal() or len(last) > len(str(2**53)):
        raise Invalid(
            "the query",
            [Fault("cursor", "is not valid; use the unchanged nextCursor of the previous page")],
        )
    return int(last)


ROUTES = (audit,)
