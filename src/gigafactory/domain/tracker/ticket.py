"""Convert tracker tickets to jobs."""

import hashlib
from typing import Literal

import msgspec

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job.job import Priority
from gigafactory.domain.manifest.job_file import parse_json_job, title_of
from gigafactory.domain.manifest.manifest import JobFile

TicketStatus = Literal["open", "in_progress", "done", "closed", "wont_fix"]

RUN_LABEL = "agent:run"
"""The label with which people hand a ticket over to an agent."""
TRIAGE_LABEL = "needs-triage"
"""The label of a ticket that a person has to triage first."""
STAGE_LABEL_PREFIX = "fleet:"
"""The prefix of the label with the stage of a ticket's job."""
ROADMAP_LABEL = "kind:roadmap"
"""The label of a parent ticket: a composite."""
OPEN_STATUSES: frozenset[TicketStatus] = frozenset({"open", "in_progress"})

_ONE = {"profile": "profile", "engine-class": "engineClass", "priority": "priority", "repo": "repo"}
_MANY = {"cap": "capabilities"}


class Ticket(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A ticket, with the field names of the items API."""

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
    """The ticket's product, if the tracker has products."""


def is_handed_over(ticket: Ticket, agent: str) -> bool:
    """Return whether an agent should work on the ticket: by label, or assigned to the agent."""
    is_for_agents = RUN_LABEL in ticket.labels or agent.lstrip("@") in {
        who.lstrip("@") for who in ticket.assignees
    }
    return is_for_agents and ticket.status in OPEN_STATUSES and TRIAGE_LABEL not in ticket.labels


def ticket_key(item_id: str, generation: int = 1) -> str:
    """Return the idempotency key of a ticket's job; later generations follow a finished job."""
    return f"tracker-{item_id}" + (f".{generation}" if generation > 1 else "")


def job_file_of(ticket: Ticket, *, repo: str | None = None) -> JobFile:
    """Return the job file of a ticket, without an idempotency key; `repo` is the default repo.

    Labels that the fleet writes are ignored. Raises Invalid with every fault.
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
    """Return a hash of the parts that people edit; labels written by the fleet do not count."""
    labels = sorted(
        label for label in ticket.labels if not label.startswith((STAGE_LABEL_PREFIX, TRIAGE_LABEL))
    )
    content = msgspec.json.encode(
        (ticket.id, ticket.title, ticket.description, ticket.priority, labels)
    )
    return hashlib.sha256(content).hexdigest()


def with_key(file: JobFile, key: str) -> JobFile:
    """Return the job file with an idempotency key."""
    manifest = msgspec.structs.replace(file.manifest, idempotency_key=key)
    return msgspec.structs.replace(file, manifest=manifest)


def _fields_from_labels(labels: tuple[str, ...], faults: list[Fault]) -> dict[str, object]:
    """Return the manifest fields of labels such as `profile:qa`; duplicates are faults."""
    fields: dict[str, object] = {}
    many: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        name, colon, value = (part.strip() for part in label.partition(":"))
        if not colon or not value:
            continue
        if name in _MANY:
            many.setdefault(_MANY[name], []).append(value)
        elif name in _ONE and _ONE[name] in fields:
            message = f"found two labels {name}:…; expected one at most"
            faults.append(Fault(_ONE[name], message))
        elif name in _ONE:
            fields[_ONE[name]] = value
    return {**fields, **{key: sorted(values) for key, values in many.items()}}


def _body(item: Ticket) -> str:
    title = title_of(item.title) or item.id
    described = item.description.replace("\r\n", "\n").strip()
    return f"# {title}\n\n{described}\n" if described else f"# {title}\n"
