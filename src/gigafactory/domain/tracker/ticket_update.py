"""Ticket updates: what is written to a ticket about its job, and how far that has got."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import ClassVar
from urllib.parse import quote

import msgspec

from gigafactory.domain.job.change import FLEET
from gigafactory.domain.job.job import Event, Job, Result, Stage
from gigafactory.domain.job.run import Run
from gigafactory.domain.manifest.units import format_duration, format_usd
from gigafactory.domain.tracker.ticket import (
    OPEN_STATUSES,
    STAGE_LABEL_PREFIX,
    TRIAGE_LABEL,
    Ticket,
    TicketStatus,
)

INTENT_TTL = timedelta(seconds=60)
"""After this time a writer that announced an update has finished or died."""
CURSOR_TTL = timedelta(days=90)

_FAILING = frozenset({Stage.FAILED, Stage.DEAD_LETTER, Stage.CANCELLED})
_SILENT = frozenset({Stage.QUEUED, Stage.ASSIGNED, Stage.BLOCKED})
_URL = re.compile(r"https?://[^\s<>()]+")
_PULL = re.compile(r".+/pull/[0-9]+")
_COMMIT_CHARS = 12


class TicketUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """One update of a ticket: status, labels and, in most stages, a comment."""

    seq: int
    """The number of the job's event that it reports."""
    stage: Stage
    status: TicketStatus | None
    """None leaves it unchanged."""
    triage: bool | None = None
    """Whether the ticket needs triage; None leaves the label unchanged."""
    text: str | None = None


class FeedCursor(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The feed position up to which a duty has processed events."""

    kind: ClassVar[str] = "heard"
    product_id: ClassVar[str] = FLEET
    expires_at: ClassVar[None] = None

    duty: str
    position: int
    rev: int = 1

    @property
    def key(self) -> str:
        """The name of the duty."""
        return self.duty


class WriteIntent(msgspec.Struct, frozen=True, rename="camel"):
    """An announced write of the event `seq`, which may or may not have happened."""

    seq: int
    by: str
    at: datetime


class TicketCursor(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a ticket is updated about one of its jobs."""

    kind: ClassVar[str] = "echo"

    product_id: str
    item_id: str
    job_id: str
    seq: int = 0
    """Events up to this number are written or skipped."""
    stage: Stage | None = None
    """The stage that was written last."""
    intent: WriteIntent | None = None
    expires_at: datetime | None = None
    rev: int = 1

    @property
    def key(self) -> str:
        """Product, ticket and job; cursors of one ticket sort by job."""
        return f"{cursor_prefix(self.product_id, self.item_id)}{self.job_id}"

    def marker(self, seq: int) -> str:
        """Return the hidden marker that identifies our comment about an event."""
        return f"<!-- aq:{self.job_id}:echo:{seq} -->"

    def is_busy(self, me: str, now: datetime) -> bool:
        """Return whether another process may be writing now."""
        intent = self.intent
        return intent is not None and intent.by != me and now < intent.at + INTENT_TTL


def cursor_prefix(product_id: str, item_id: str) -> str:
    """Return the common key prefix of a ticket's cursors."""
    return f"{product_id}/{quote(item_id, safe='')}/"


def new_cursor(job: Job, *, seq: int) -> TicketCursor:
    """Return the cursor of a job whose ticket has no update yet; events up to `seq` are skipped."""
    assert job.tracker_item is not None, "only a job with a ticket has a cursor"
    return TicketCursor(product_id=job.product_id, item_id=job.tracker_item, job_id=job.id, seq=seq)


def with_intent(
    cursor: TicketCursor, update: TicketUpdate, *, by: str, now: datetime
) -> TicketCursor:
    """Return the cursor with the intent to write an update."""
    return msgspec.structs.replace(
        cursor, intent=WriteIntent(update.seq, by, now), seq=update.seq - 1, rev=cursor.rev + 1
    )


def release_intent(cursor: TicketCursor) -> TicketCursor:
    """Return the cursor after a failed write: its intent is expired, so others need not wait."""
    assert cursor.intent is not None, "a failed write had an intent"
    over = msgspec.structs.replace(cursor.intent, at=cursor.intent.at - INTENT_TTL)
    return msgspec.structs.replace(cursor, intent=over, rev=cursor.rev + 1)


def reopen(cursor: TicketCursor) -> TicketCursor:
    """Return the cursor of a job that was reopened."""
    return msgspec.structs.replace(cursor, expires_at=None, rev=cursor.rev + 1)


def advance(cursor: TicketCursor, update: TicketUpdate, *, now: datetime) -> TicketCursor:
    """Return the cursor after an update; it expires if the job is finished."""
    ended = update.stage in _FAILING or update.stage is Stage.SHIPPED
    return msgspec.structs.replace(
        cursor,
        seq=update.seq,
        stage=update.stage,
        intent=None,
        expires_at=now + CURSOR_TTL if ended else None,
        rev=cursor.rev + 1,
    )


def next_update(
    cursor: TicketCursor, job: Job, events: Sequence[Event], runs: Sequence[Run] = ()
) -> TicketUpdate | None:
    """Return the next update from the events after the cursor; None if there is none.

    A stage without a comment is skipped if the job has moved on since.
    """
    stage = cursor.stage
    moved: list[Event] = []
    for event in events:
        if event.seq > cursor.seq and event.stage is not None and event.stage is not stage:
            moved.append(event)
            stage = event.stage
    # The ticket of a superseded job gets the updates of its successor instead.
    relevant = [event for event in moved if not (job.superseded_by and event.stage in _FAILING)]
    for event in relevant:
        if event is relevant[-1] or event.stage not in _SILENT:
            return _update(cursor, job, event, events, runs)
    return None


def seq_before_latest_stage(events: Sequence[Event]) -> int:
    """Return the number of the event before the latest change of stage."""
    before = 0
    for earlier, event in pairwise(events):
        if event.stage is not earlier.stage:
            before = earlier.seq
    return before


def status_after(item: Ticket, wanted: TicketStatus | None) -> TicketStatus | None:
    """Return the new status of a ticket; None to leave it. Closed tickets stay closed."""
    return wanted if item.status in OPEN_STATUSES and item.status != wanted else None


def labels_after(item: Ticket, update: TicketUpdate) -> tuple[str, ...]:
    """Return the labels after an update: one stage label, and all labels of others."""
    drop = {TRIAGE_LABEL} if update.triage is not None else set()
    labels = [
        label
        for label in item.labels
        if not label.startswith(STAGE_LABEL_PREFIX) and label not in drop
    ]
    return (
        *labels,
        f"{STAGE_LABEL_PREFIX}{update.stage}",
        *((TRIAGE_LABEL,) if update.triage else ()),
    )


def _update(
    cursor: TicketCursor, job: Job, event: Event, events: Sequence[Event], runs: Sequence[Run]
) -> TicketUpdate:
    stage = event.stage
    assert stage is not None, "a job's events have stages"
    text = None if stage in _SILENT else _text(job, event, events, runs)
    status: TicketStatus = "done" if stage is Stage.SHIPPED else "in_progress"
    needs_triage = True if stage in _FAILING else False if cursor.stage in _FAILING else None
    return TicketUpdate(
        seq=event.seq,
        stage=stage,
        status=None if stage is Stage.CANCELLED else status,
        triage=needs_triage,
        text=text,
    )


def _text(job: Job, event: Event, events: Sequence[Event], runs: Sequence[Run]) -> str:
    lines = [_headline(job, event)]
    if event.stage is not Stage.BUILDING:
        if commit := event.data.get("commit") or job.head:
            lines.append(f"- commit `{str(commit)[:_COMMIT_CHARS]}`")
        lines += [f"- pull request {url}" for url in _pull_requests(event, events)]
        if job.verified is not None:
            lines.append(f"- verify {'passed' if job.verified else 'did not pass'}")
        lines += _metrics(runs)
    return "\n".join([*lines, f"- job `{job.name}` ({job.id})"])


def _headline(job: Job, event: Event) -> str:
    result = event.data.get("result") or job.result
    reason = f" ({result})" if result not in (None, Result.OK) else ""
    match event.stage:
        case Stage.BUILDING:
            factory, engine = event.data.get("factoryId"), event.data.get("engine")
            where = f" on factory {factory}" if factory else ""
            return f"Started{where}{f' with {engine}' if engine else ''}."
        case Stage.REVIEW:
            return "Done, and waiting for a review."
        case Stage.TESTING:
            return "Done, and waiting to be shipped."
        case Stage.SHIPPED:
            return "Shipped."
        case Stage.CANCELLED:
            return "Cancelled. A person decides what becomes of this ticket."
        case _:
            return f"Failed{reason}. A person must look."


def _pull_requests(event: Event, events: Sequence[Event]) -> list[str]:
    """Return the pull requests named in notes up to this event."""
    notes = (str(each.data.get("note")) for each in events if each.seq <= event.seq)
    pulls = (_PULL.match(url) for note in notes for url in _URL.findall(note))
    return list(dict.fromkeys(pull[0] for pull in pulls if pull))


def _metrics(runs: Sequence[Run]) -> list[str]:
    used = [run.usage for run in runs if run.usage is not None]
    wall = sum(run.wall_sec or 0.0 for run in runs)
    cost = [usage.cost_nano_usd for usage in used if usage.cost_nano_usd is not None]
    tokens = sum(usage.tokens for usage in used)
    parts = [f"{len(runs)} run{'s' if len(runs) > 1 else ''}"] if runs else []
    parts += [format_duration(timedelta(seconds=round(wall)))] if round(wall) else []
    parts += [f"{tokens:,} tokens"] if tokens else []
    parts += [f"{format_usd(sum(cost))} USD"] if cost else []
    return [f"- {', '.join(parts)}"] if parts else []
