"""Records of tracker tickets."""

from typing import Annotated, Literal

from msgspec import Meta

from gigafactory.wire.fields import JobId, Line, ProductId, RequestDoc, ResponseView, Word
from gigafactory.wire.jobs import JobView

LABELS_MAX = 200


Status = Literal["open", "in_progress", "done", "closed", "wont_fix"]


class TicketDoc(RequestDoc, frozen=True, kw_only=True):
    """A ticket, with the fields of the items API."""

    id: Word
    title: Annotated[str, Meta(min_length=1, max_length=1000)]
    type: Line = "task"
    status: Status = "open"
    description: str = ""
    priority: Line | None = None
    labels: Annotated[tuple[Line, ...], Meta(max_length=LABELS_MAX)] = ()
    url: Line | None = None


class IngestDoc(RequestDoc, frozen=True, kw_only=True):
    """The ticket to import: by id or complete; neither: all that are assigned to agents."""

    item_id: Word | None = None
    item: TicketDoc | None = None


class RefusedTicketView(ResponseView, frozen=True, kw_only=True):
    """A ticket that could not be imported."""

    item_id: str
    code: str
    detail: str


class TicketsView(ResponseView, frozen=True, kw_only=True):
    """The jobs of imported tickets, and the tickets that were refused."""

    jobs: tuple[JobView, ...]
    refused: tuple[RefusedTicketView, ...]


class TicketUpdateDoc(RequestDoc, frozen=True, kw_only=True):
    """The job whose ticket to update."""

    job_id: JobId


class TicketUpdateView(ResponseView, frozen=True, kw_only=True):
    """Result of a ticket update."""

    item_id: str
    echoed: int
    """Number of updates that were sent."""
    pending: bool
    """Whether another coordinator is sending updates at the same time."""


class WebhookQuery(RequestDoc, frozen=True, kw_only=True):
    """The product whose tracker sends the webhook."""

    product: ProductId | None = None
    """Default: the tracker of all products without their own."""
