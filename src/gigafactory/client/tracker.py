"""The calls on the tracker."""

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.wire.answers import Answer, Job


class Unfit(Answer, frozen=True):
    """A ticket that did not become a job."""

    item_id: str
    detail: str


class Tickets(Answer, frozen=True):
    """The jobs of tickets, and the tickets that did not become one."""

    jobs: tuple[Job, ...]
    refused: tuple[Unfit, ...]


class Told(Answer, frozen=True):
    """What a ticket was told."""

    item_id: str
    echoed: int
    pending: bool


def ingest(item_id: str | None = None) -> Call[Tickets]:
    """Make a job of a ticket, or of all that were handed over."""
    body = msgspec.json.encode({} if item_id is None else {"itemId": item_id})
    return Call(method="POST", path=path("tracker", "ingest"), answer=Tickets, body=body)


def echo(job: str) -> Call[Told]:
    """Tell a job's ticket what it has not been told yet."""
    body = msgspec.json.encode({"jobId": job})
    return Call(method="POST", path=path("tracker", "echo"), answer=Told, body=body)
