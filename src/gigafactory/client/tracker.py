"""The calls on the tracker."""

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.wire.tracker import TicketsView, ToldView


def ingest(item_id: str | None = None) -> Call[TicketsView]:
    """Make a job of a ticket, or of all that were handed over."""
    body = msgspec.json.encode({} if item_id is None else {"itemId": item_id})
    return Call(method="POST", path=path("tracker", "ingest"), answer=TicketsView, body=body)


def echo(job: str) -> Call[ToldView]:
    """Tell a job's ticket what it has not been told yet."""
    body = msgspec.json.encode({"jobId": job})
    return Call(method="POST", path=path("tracker", "echo"), answer=ToldView, body=body)
