"""Records of tracker tickets."""

from typing import Annotated, Literal

from msgspec import Meta

from gigafactory.wire.fields import JobId, Line, RequestDoc, ResponseView, Word
from gigafactory.wire.jobs import JobView

LABELS_MAX = 200


Status = Literal["open", "in_progress", "done", "closed", "wont_fix"]


class TicketDoc(RequestDoc, frozen=True, kw_only=True):
    """A ticket, in the words of the items API."""

    id: Word
    title: Annotated[str, Meta(min_length=1, max_length=1000)]
    type: Line = "task"
    status: Status = "open"
    description: str = ""
    priority: Line | None = None
    labels: Annotated[tuple[Line, ...], Meta(max_length=LABELS_MAX)] = ()
    url: Line | None = None


class IngestDoc(RequestDoc, frozen=True, kw_only=True):
    """Which ticket: by its id, or brought along whole; neither: all that were handed over."""

    item_id: Word | None = None
    item: TicketDoc | None = None


class RefusedTicketView(ResponseView, frozen=True, kw_only=True):
    """A ticket that did not become a job."""

    item_id: str
    code: str
    detail: str


class TicketsView(ResponseView, frozen=True, kw_only=True):
    """The jobs of tickets, and the tickets that did not become one."""

    jobs: tuple[JobView, ...]
    refused: tuple[RefusedTicketView, ...]


class TicketUpdateDoc(RequestDoc, frozen=True, kw_only=True):
    """Which job's ticket is to be told."""

    job_id: JobId


class TicketUpdateView(ResponseView, frozen=True, kw_only=True):
    """What the ticket was told."""

    item_id: str
    echoed: int
    """How many things it had not heard yet."""
    pending: bool
    """Whether somebody else is telling it at this moment."""
