"""Calls on the tracker."""

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.wire.tracker import IngestDoc, TicketsView, TicketUpdateDoc, TicketUpdateView


def ingest(item_id: str | None = None) -> ApiCall[TicketsView]:
    """Import one ticket, or all that are assigned to agents."""
    body = msgspec.json.encode(IngestDoc(item_id=item_id))
    return ApiCall(
        method="POST", path=path("tracker", "ingest"), response_type=TicketsView, body=body
    )


def echo(job: str) -> ApiCall[TicketUpdateView]:
    """Send pending updates of a job to its ticket."""
    body = msgspec.json.encode(TicketUpdateDoc(job_id=job))
    return ApiCall(
        method="POST", path=path("tracker", "echo"), response_type=TicketUpdateView, body=body
    )
