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
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.tracker.ticket import Ticket
from gigafactory.wire.tracker import (
    IngestDoc,
    RefusedTicketView,
    TicketsView,
    TicketUpdateDoc,
    TicketUpdateView,
    WebhookQuery,
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

    Importing a ticket again returns its job (200). A changed ticket replaces its job while the job
    waits; 409 once it runs. 503 while the tracker is unavailable.
    """
    caller = await request.caller("submit")
    doc = await request.json_body(IngestDoc, bytes_max=BATCH_BYTES_MAX)
    tickets = request.coordinator.ticket_importer
    if doc.item_id is not None and doc.item is not None:
        raise Invalid("the request", [Fault("item", "expected itemId or item, not both")])
    if doc.item is not None:
        ticket = Ticket(**msgspec.structs.asdict(doc.item))
        submitted = await tickets.ingest_item(caller, ticket)
        return _import_response(request, ImportResult(submitted.jobs, submitted.created))
    if doc.item_id is not None:
        submitted = await tickets.ingest(caller, doc.item_id)
        return _import_response(request, ImportResult(submitted.jobs, submitted.created))
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

    503 while the tracker is unavailable.
    """
    caller = await request.caller("echo")
    doc = await request.json_body(TicketUpdateDoc)
    update = await request.coordinator.ticket_updater.update_now(caller, doc.job_id)
    return json_response(
        TicketUpdateView(item_id=update.item_id, echoed=update.echoed, pending=update.pending)
    )


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

    `X-Hub-Signature-256` must sign the body with HMAC-SHA256, as GitHub does; otherwise 401. 409
    for a repeated delivery.
    """
    page = request.query(WebhookQuery)
    webhooks = request.coordinator.webhooks
    with request.authn.counting_failures(request.address):
        webhooks.require_tracker(page.product)
        submitted = await webhooks.receive(
            await request.read_unknown_body(REQUEST_BYTES_MAX),
            product=page.product,
            signature=_text(request.header(b"x-hub-signature-256")) or "",
            delivery=_text(
                request.header(b"x-github-delivery") or request.header(b"x-delivery-id")
            ),
            address=request.address,
        )
    return json_response(_view(request, ImportResult(submitted.jobs)), 202)


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


def _import_response(request: ApiRequest, result: ImportResult) -> ASGIApp:
    return json_response(_view(request, result), 201 if result.created else 200)


def _view(request: ApiRequest, result: ImportResult) -> TicketsView:
    flagged = request.coordinator.jobs.with_fleet_flags
    return TicketsView(
        jobs=tuple(views.render_job(flagged(job)) for job in result.jobs),
        refused=tuple(_refused_ticket(each) for each in result.refused),
    )


def _refused_ticket(of: RejectedItem) -> RefusedTicketView:
    return RefusedTicketView(item_id=of.item_id, code=of.code, detail=of.detail)


ROUTES = (ingest, echo, webhook)
