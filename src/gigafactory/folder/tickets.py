"""Imports tickets of a tracker as files of an inbox, and posts updates on their jobs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from gigafactory.coordinator.core.ports import Tracker
from gigafactory.coordinator.tracker.ticket_updater import (
    UPDATE_TIMEOUT_S,
    UpdateResult,
    apply_update,
)
from gigafactory.domain.errors import (
    Fault,
    IdempotencyConflict,
    Invalid,
    Refused,
    TrackerRefused,
    TrackerUnavailable,
)
from gigafactory.domain.job import event_types
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.job.lifecycle import transition
from gigafactory.domain.manifest.encoder import format_job_file
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.domain.manifest.manifest import content_hash
from gigafactory.domain.manifest.names import slugify
from gigafactory.domain.submission.submission import idempotency_hold
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT
from gigafactory.domain.tracker.ticket import Ticket, job_file_of, ticket_key, with_key
from gigafactory.domain.tracker.ticket_update import (
    TicketCursor,
    TicketUpdate,
    advance,
    new_cursor,
    next_update,
    release_intent,
    seq_before_latest_stage,
    with_intent,
)
from gigafactory.folder.queue.board import SUFFIX
from gigafactory.folder.queue.record import JobRecord, events_of
from gigafactory.folder.queue.store import FolderQueue, LockedQueue
from gigafactory.system.atomic_file import write_atomically

ACTOR = "system:tracker"


log = structlog.get_logger()


class TicketImport(msgspec.Struct, frozen=True):
    """The result of importing tickets."""

    added: tuple[Path, ...] = ()
    known: tuple[str, ...] = ()
    """Tickets that are already jobs or files."""
    refused: dict[str, str] = {}
    """Reasons of the refused tickets, by id."""


def put(queue: FolderQueue, items: Sequence[Ticket], *, repo: str | None) -> TicketImport:
    """Write tickets into the inbox, each once; a changed ticket replaces its waiting job."""
    added: list[Path] = []
    known_ids: list[str] = []
    refused: dict[str, str] = {}
    with queue.open() as locked:
        for item in items:
            try:
                path = _put(locked, item, repo)
            except Refused as no:
                refused[item.id] = no.detail
            except OSError:
                raise
            except Exception as error:
                # One ticket never stops the others.
                log.exception("ticket failed", item=item.id)
                refused[item.id] = f"an unexpected error occurred: {type(error).__name__}: {error}"
            else:
                (added.append(path) if path is not None else known_ids.append(item.id))
    return TicketImport(tuple(added), tuple(known_ids), refused)


def _put(locked: LockedQueue, item: Ticket, repo: str | None) -> Path | None:
    generation, newest = 1, None
    while (known_job := _holder(locked, ticket_key(item.id, generation))) is not None:
        generation, newest = generation + 1, known_job
    data, stem = _job_file_of_ticket(item, repo, generation - 1 if newest is not None else 1)
    if newest is not None:
        parsed = parse_job_file(data, stem=stem)
        if newest.content_hash == content_hash(parsed.manifest, parsed.body):
            return None
        if newest.finished:
            data, stem = _job_file_of_ticket(item, repo, generation)
        elif newest.stage not in {Stage.QUEUED, Stage.BLOCKED}:
            raise IdempotencyConflict(
                f"its job {newest.name} is {newest.stage}, and continues with its earlier content"
            )
    waiting = locked.board.column("inbox") / f"{stem}{SUFFIX}"
    if newest is None and waiting.exists():
        if waiting.read_bytes() == data:
            return None
        place = waiting
    else:
        place = locked.board.column("inbox") / f"{locked.board.free_stem(stem)}{SUFFIX}"
    write_atomically(place, data, fsync=True)
    return place


def _job_file_of_ticket(item: Ticket, repo: str | None, generation: int) -> tuple[bytes, str]:
    """Return the job file of a ticket and its stem."""
    key = ticket_key(item.id, generation)
    file = with_key(job_file_of(item, repo=repo), key)
    name = slugify(key) or "ticket"
    manifest = msgspec.structs.replace(file.manifest, name=name)
    return format_job_file(manifest, file.body).encode(), name


def _holder(locked: LockedQueue, key: str) -> Job | None:
    return locked.holder(idempotency_hold(DEFAULT_PRODUCT, key))


async def echo(queue: FolderQueue, tracker: Tracker, reference: str, *, me: str) -> UpdateResult:
    """Send the pending updates of a job to its ticket, each at most once.

    Raises NotFound, Invalid for a job without a ticket, TrackerUnavailable.
    """
    updates = 0
    while True:
        with queue.open() as locked:
            record = locked.lookup(reference)
            if record.job.tracker_item is None:
                fault = Fault("tracker-item", f"the job {record.job.name} has no ticket to update")
                raise Invalid("the echo", [fault])
            intent = _record_intent(locked, record, me)
        item_id = record.job.tracker_item
        if not isinstance(intent, tuple):
            return UpdateResult(item_id, updates, pending=intent)
        cursor, update = intent
        try:
            refusal = await _send_update(tracker, cursor, update)
        except TrackerUnavailable:
            with queue.open() as locked:
                write_atomically(
                    _cursor_file(locked, record),
                    msgspec.json.encode(release_intent(cursor)),
                    fsync=True,
                )
            raise
        with queue.open() as locked:
            _record_sent(
                locked, record.job.id, advance(cursor, update, now=locked.now), update, refusal
            )
        updates += 1


def _record_intent(
    locked: LockedQueue, record: JobRecord, me: str
) -> tuple[TicketCursor, TicketUpdate] | bool:
    """Record and return the next update; otherwise return whether another process is sending."""
    events = events_of(locked.board, record)
    file = _cursor_file(locked, record)
    if file.exists():
        cursor = msgspec.json.decode(file.read_bytes(), type=TicketCursor)
    else:
        cursor = new_cursor(record.job, seq=seq_before_latest_stage(events))
    after = [event for event in events if event.seq > cursor.seq]
    update = next_update(cursor, record.job, after, record.runs)
    if update is None:
        return False
    if cursor.is_busy(me, locked.now):
        return True
    intent = with_intent(cursor, update, by=me, now=locked.now)
    write_atomically(file, msgspec.json.encode(intent), fsync=True)
    return intent, update


async def _send_update(tracker: Tracker, cursor: TicketCursor, update: TicketUpdate) -> str | None:
    try:
        async with asyncio.timeout(UPDATE_TIMEOUT_S):
            await apply_update(tracker, cursor.item_id, update, cursor.marker(update.seq))
    except TimeoutError:
        raise TrackerUnavailable(f"the tracker took longer than {UPDATE_TIMEOUT_S:g} s") from None
    except TrackerRefused as refusal:
        return refusal.detail
    return None


def _record_sent(
    locked: LockedQueue,
    job_id: str,
    cursor: TicketCursor,
    update: TicketUpdate,
    refusal: str | None,
) -> None:
    record = locked.records[job_id]
    data = {"itemId": cursor.item_id, "stage": update.stage, "status": update.status}
    data |= {"refused": refusal} if refusal is not None else {}
    # Store the cursor first: an update is never repeated, and a missing event costs nothing.
    write_atomically(_cursor_file(locked, record), msgspec.json.encode(cursor), fsync=True)
    locked.commit(
        transition(
            record.job, None, (event_types.TRACKER_ECHOED, data), actor=ACTOR, now=locked.now
        )
    )


def _cursor_file(locked: LockedQueue, record: JobRecord) -> Path:
    return locked.board.ticket_cursor(record.key)
