"""The calls on the tracker."""

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.wire.tracker import TicketsView, TicketUpdateView


def ingest(item_id: str | None = None) -> ApiCall[TicketsView]:
    """Make a job of a ticket, or of all that were handed over."""
    body = msgspec.json.encode({} if item_id is None else {"itemId": item_id})
    return ApiCall(
        method="POST", path=path("tracker", "ingest"), response_type=TicketsView, body=body
    )


def echo(job: str) -> ApiCall[TicketUpdateView]:
    """Tell a job's ticket what it has not been told yet."""
    body = msgspec.json.encode({"jobId": job})
    return ApiCall(
        method="POST", path=path("tracker", "echo"), response_type=TicketUpdateView, body=body
    )
