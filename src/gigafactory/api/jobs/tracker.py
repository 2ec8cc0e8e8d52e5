"""Tracker endpoints: import tickets, update them, receive webhooks."""

from typing import Any

import msgspec
from litestar import post
from litestar.types import ASGIApp

from gigafactory.api.http.examples import JOB_ID
from gigafactory.api.http.limits import BATCH_BYTES_MAX, REQUEST_BYTES_MAX
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.api.render import jobs as views
from gigafactory.coordinator.tracker.ticket_importer import ImportResult, RejectedItem
from gigafactory.coordinator.tracker.ticket_updater import UpdateResult
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.tracker.ticket import Ticket
from gigafactory.wire.fields import ProductId, RequestDoc
from gigafactory.wire.tracker import (
    IngestDoc,
    RefusedTicketView,
    TicketsView,
    TicketUpdateDoc,
    TicketUpdateView,
)

TAG = "Tracker"


@post(
    "/tracker/ingest",
    opt=operation(
        TAG,
        body=Body(of=IngestDoc, example={"itemId": "ITEM-789"}),
        responses={200: Body(of=TicketsView), 201: Body(of=TicketsView)},
        errors=(404, 409),
        optional_body=True,
    ),
)
async def ingest(request: ApiRequest) -> ASGIApp:
    """Import tickets as jobs: one, or all that are assigned to agents.

    The same ticket twice is one job (200). A changed one takes the place of its job while that
    waits; 409 once it runs. 503 while the tracker is away.
    """
    caller = await request.caller()
    asked = await request.json_body(IngestDoc, bytes_max=BATCH_BYTES_MAX)
    tickets = request.coordinator.ticket_importer
    if asked.item_id is not None and asked.item is not None:
        raise Invalid("the request", [Fault("item", "expected itemId or item, not both")])
    if asked.item is not None:
        given = Ticket(**msgspec.structs.asdict(asked.item))
        made = await tickets.ingest_item(caller, given)
        return _import_response(request, ImportResult(made.jobs, made.created))
    if asked.item_id is not None:
        made = await tickets.ingest(caller, asked.item_id)
        return _import_response(request, ImportResult(made.jobs, made.created))
    return _import_response(request, await tickets.ingest_waiting(caller))


@post(
    "/tracker/echo",
    status_code=200,
    opt=operation(
        TAG,
        body=Body(of=TicketUpdateDoc, example={"jobId": JOB_ID}),
        responses={200: Body(of=TicketUpdateView)},
        errors=(404, 409),
    ),
)
async def echo(request: ApiRequest) -> ASGIApp:
    """Send pending updates to a job's ticket now; each update is sent once.

    503 while the tracker is away.
    """
    caller = await request.caller()
    asked = await request.json_body(TicketUpdateDoc)
    told: UpdateResult = await request.coordinator.ticket_updater.update_now(caller, asked.job_id)
    shown = TicketUpdateView(item_id=told.item_id, echoed=told.echoed, pending=told.pending)
    return json_response(shown)


class WebhookQuery(RequestDoc, frozen=True, kw_only=True):
    """The product whose tracker sends the webhook."""

    product: ProductId | None = None
    """Default: the tracker of all products without their own."""


@post(
    "/tracker/webhook",
    status_code=202,
    opt=operation(
        TAG,
        body=Body(of=dict[str, Any], example={"item": {"id": "X-1", "title": "Say hello"}}),
        query=WebhookQuery,
        responses={202: Body(of=TicketsView)},
        errors=(401, 404, 409),
        token=False,
        headers=("X-Hub-Signature-256", "X-GitHub-Delivery", "X-Delivery-Id"),
    ),
)
async def webhook(request: ApiRequest) -> ASGIApp:
    """Receive a webhook of a tracker.

    Signed with HMAC-SHA256 over the body in `X-Hub-Signature-256`, as GitHub does it; 401
    otherwise, 409 for a delivery that was here before.
    """
    page = request.query(WebhookQuery)
    async with request.authn.counting_failures(request.address):
        made = await request.coordinator.webhooks.receive(
            await request.read_body(REQUEST_BYTES_MAX),
            product=page.product,
            signature=_text(request.header(b"x-hub-signature-256")) or "",
            delivery=_text(
                request.header(b"x-github-delivery") or request.header(b"x-delivery-id")
            ),
            address=request.address,
        )
    return json_response(_view(request, ImportResult(made.jobs)), 202)


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


def _import_response(request: ApiRequest, taken: ImportResult) -> ASGIApp:
    return json_response(_view(request, taken), 201 if taken.created else 200)


def _view(request: ApiRequest, taken: ImportResult) -> TicketsView:
    flagged = request.coordinator.jobs.with_fleet_flags
    return TicketsView(
        jobs=tuple(views.render_job(flagged(job)) for job in taken.jobs),
        refused=tuple(_refused_ticket(each) for each in taken.refused),
    )


def _refused_ticket(unfit: RejectedItem) -> RefusedTicketView:
    return RefusedTicketView(item_id=unfit.item_id, code=unfit.code, detail=unfit.detail)


ROUTES = (ingest, echo, webhook)
