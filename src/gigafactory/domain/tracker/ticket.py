"""Tickets: what an item of a tracker asks for, as a job."""

import hashlib
from typing import Literal

import msgspec

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job.job import Priority
from gigafactory.domain.manifest.job_file import parse_json_job, title_of
from gigafactory.domain.manifest.manifest import JobFile

TicketStatus = Literal["open", "in_progress", "done", "closed", "wont_fix"]

RUN_LABEL = "agent:run"
"""The label by which people hand an item over."""
TRIAGE_LABEL = "needs-triage"
"""The label of an item that a person must look at before anything more is done with it."""
STAGE_LABEL_PREFIX = "fleet:"
"""What the label begins with that tells where an item's job stands."""
ROADMAP_LABEL = "kind:roadmap"
"""The label of a parent item: a composite."""
OPEN_STATUSES: frozenset[TicketStatus] = frozenset({"open", "in_progress"})

_ONE = {"profile": "profile", "engine-class": "engineClass", "priority": "priority", "repo": "repo"}
_MANY = {"cap": "capabilities"}


class Ticket(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A ticket, in the words of the items API."""

    id: str
    title: str
    type: str = "task"
    status: TicketStatus = "open"
    description: str = ""
    priority: str | None = None
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    url: str | None = None
    product: str | None = None
    """The product that it says it belongs to, where the tracker knows of products."""


def is_handed_over(ticket: Ticket, agent: str) -> bool:
    """Whether people want an agent to work on this: by the label, or assigned to the agent."""
    asked = RUN_LABEL in ticket.labels or agent.lstrip("@") in {
        who.lstrip("@") for who in ticket.assignees
    }
    return asked and ticket.status in OPEN_STATUSES and TRIAGE_LABEL not in ticket.labels


def ticket_key(item_id: str, generation: int = 1) -> str:
    """The idempotency key of an item's job; a changed item whose job has ended gets the next."""
    return f"tracker-{item_id}" + (f".{generation}" if generation > 1 else "")


def job_file_of(ticket: Ticket, *, repo: str | None = None) -> JobFile:
    """The job that an item asks for, still without a key; `repo` is where it names none.

    What we write to an item ourselves is no part of it. Raises Invalid with all that is wrong.
    """
    faults: list[Fault] = []
    manifest: dict[str, object] = {
        "title": title_of(ticket.title) or ticket.id,
        "priority": ticket.priority if ticket.priority in set(Priority) else None,
        "repo": repo,
        "trackerItem": ticket.id,
        "kind": "composite" if ROADMAP_LABEL in ticket.labels else None,
        **_fields_from_labels(ticket.labels, faults),
    }
    given = {key: value for key, value in manifest.items() if value is not None}
    try:
        file = parse_json_job({"manifest": given, "body": _body(ticket)})
    except Invalid as invalid:
        faults.extend(invalid.faults)
    if faults:
        raise Invalid(f"the ticket {ticket.id}", faults)
    return file


def digest_of(ticket: Ticket) -> str:
    """What tells whether people have changed an item; what we write to it changes nothing."""
    labels = sorted(
        label for label in ticket.labels if not label.startswith((STAGE_LABEL_PREFIX, TRIAGE_LABEL))
    )
    told = msgspec.json.encode(
        (ticket.id, ticket.title, ticket.description, ticket.priority, labels)
    )
    return hashlib.sha256(told).hexdigest()


def with_key(file: JobFile, key: str) -> JobFile:
    """The job under its idempotency key."""
    manifest = msgspec.structs.replace(file.manifest, idempotency_key=key)
    return msgspec.structs.replace(file, manifest=manifest)


def _fields_from_labels(labels: tuple[str, ...], faults: list[Fault]) -> dict[str, object]:
    """What labels such as `profile:qa` say; what can be said once is not said twice."""
    told: dict[str, object] = {}
    many: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        name, colon, value = (part.strip() for part in label.partition(":"))
        if not colon or not value:
            continue
        if name in _MANY:
            many.setdefault(_MANY[name], []).append(value)
        elif name in _ONE and _ONE[name] in told:
            message = f"found two labels {name}:…; expected one at most"
            faults.append(Fault(_ONE[name], message))
        elif name in _ONE:
            told[_ONE[name]] = value
    return {**told, **{key: sorted(values) for key, values in many.items()}}


def _body(item: Ticket) -> str:
    title = title_of(item.title) or item.id
    described = item.description.replace("\r\n", "\n").strip()
    return f"# {title}\n\n{described}\n" if described else f"# {title}\n"
