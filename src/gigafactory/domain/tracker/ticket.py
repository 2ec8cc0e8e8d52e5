"""Tickets: what an item of a tracker asks for, as a job."""

import hashlib
from typing import Literal

import msgspec

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job.job import Priority
from gigafactory.domain.manifest.job_file import parse_json_job, title_of
from gigafactory.domain.manifest.manifest import JobFile

Status = Literal["open", "in_progress", "done", "closed", "wont_fix"]

RUN = "agent:run"
"""The label by which people hand an item over."""
TRIAGE = "needs-triage"
"""The label of an item that a person must look at before anything more is done with it."""
STAGE_LABEL = "fleet:"
"""What the label begins with that tells where an item's job stands."""
ROADMAP = "kind:roadmap"
"""The label of a parent item: a composite."""
UNDER_WAY: frozenset[Status] = frozenset({"open", "in_progress"})

_ONE = {"profile": "profile", "engine-class": "engineClass", "priority": "priority", "repo": "repo"}
_MANY = {"cap": "capabilities"}


class Item(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A ticket, in the words of the items API."""

    id: str
    title: str
    type: str = "task"
    status: Status = "open"
    description: str = ""
    priority: str | None = None
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    url: str | None = None
    product: str | None = None
    """The product that it says it belongs to, where the tracker knows of products."""


def handed_over(item: Item, agent: str) -> bool:
    """Whether people want an agent to work on this: by the label, or assigned to the agent."""
    asked = RUN in item.labels or agent.lstrip("@") in {who.lstrip("@") for who in item.assignees}
    return asked and item.status in UNDER_WAY and TRIAGE not in item.labels


def item_key(item_id: str, generation: int = 1) -> str:
    """The idempotency key of an item's job; a changed item whose job has ended gets the next."""
    return f"tracker-{item_id}" + (f".{generation}" if generation > 1 else "")


def job_file_of(item: Item, *, repo: str | None = None) -> JobFile:
    """The job that an item asks for, still without a key; `repo` is where it names none.

    What we write to an item ourselves is no part of it. Raises Invalid with all that is wrong.
    """
    faults: list[Fault] = []
    manifest: dict[str, object] = {
        "title": title_of(item.title) or item.id,
        "priority": item.priority if item.priority in set(Priority) else None,
        "repo": repo,
        "trackerItem": item.id,
        "kind": "composite" if ROADMAP in item.labels else None,
        **_labelled(item.labels, faults),
    }
    given = {key: value for key, value in manifest.items() if value is not None}
    try:
        file = parse_json_job({"manifest": given, "body": _body(item)})
    except Invalid as invalid:
        faults.extend(invalid.faults)
    if faults:
        raise Invalid(f"the ticket {item.id}", faults)
    return file


def digest_of(item: Item) -> str:
    """What tells whether people have changed an item; what we write to it changes nothing."""
    labels = sorted(label for label in item.labels if not label.startswith((STAGE_LABEL, TRIAGE)))
    told = msgspec.json.encode((item.id, item.title, item.description, item.priority, labels))
    return hashlib.sha256(told).hexdigest()


def keyed(file: JobFile, key: str) -> JobFile:
    """The job under its idempotency key."""
    manifest = msgspec.structs.replace(file.manifest, idempotency_key=key)
    return msgspec.structs.replace(file, manifest=manifest)


def _labelled(labels: tuple[str, ...], faults: list[Fault]) -> dict[str, object]:
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


def _body(item: Item) -> str:
    title = title_of(item.title) or item.id
    described = item.description.replace("\r\n", "\n").strip()
    return f"# {title}\n\n{described}\n" if described else f"# {title}\n"
