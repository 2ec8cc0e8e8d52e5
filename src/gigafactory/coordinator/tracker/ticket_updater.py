"""Update tickets with the progress of their jobs: in order, each update at most once."""

import asyncio
from datetime import datetime, timedelta

import msgspec
import structlog

from gigafactory.coordinator.core.committer import ATTEMPTS_MAX, Committer
from gigafactory.coordinator.core.leadership import Leadership
from gigafactory.coordinator.core.ports import (
    PAGE_MAX,
    Clock,
    Store,
    Tracker,
    TrackerBinding,
    all_records,
)
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.coordinator.tracker.ticket_importer import TicketImporter
from gigafactory.domain.errors import Fault, Invalid, NotFound, TrackerRefused, TrackerUnavailable
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FeedEntry, RecordChange, Stored
from gigafactory.domain.job.job import Event, Job, Stage
from gigafactory.domain.job.lifecycle import transition as step_of
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller
from gigafactory.domain.tracker.ticket_update import (
    FeedCursor,
    TicketCursor,
    TicketUpdate,
    advance,
    cursor_prefix,
    labels_after,
    new_cursor,
    next_update,
    reopen,
    seq_before_latest_stage,
    status_after,
    with_intent,
)

ACTOR = "system:tracker"
DUTY = "echoes"
UPDATE_TIMEOUT_S = 45.0
"""Shorter than an intent lasts: after the intent expires, no update is still in flight."""
PAUSE_FIRST, PAUSE_MAX = timedelta(seconds=5), timedelta(minutes=5)
UNSAVED_EVENTS_MAX = 1000
"""Events of unrelated jobs that may be read again after a crash."""

log = structlog.get_logger()


class UpdateResult(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome of updating an item on request."""

    item_id: str
    echoed: int
    """Number of updates applied."""
    pending: bool
    """Whether another coordinator is updating the item right now."""


async def apply_update(tracker: Tracker, item_id: str, update: TicketUpdate, marker: str) -> None:
    """Apply one update to an item; safe to repeat after a lost answer.

    Raises TrackerUnavailable, TrackerRefused.
    """
    item = await tracker.item(item_id)
    if item is None:
        raise TrackerRefused(f"item {item_id} no longer exists")
    await tracker.update(item, status_after(item, update.status), labels_after(item, update))
    if update.text is not None:
        await tracker.comment(item_id, update.text, marker)


class TicketUpdater:
    """Updates tickets as a duty, and on request."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        jobs: JobQueries,
        tickets: TicketImporter,
        leadership: Leadership,
        *,
        me: str,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._jobs = jobs
        self._importer = tickets
        self._leadership = leadership
        self._me = me
        self._start_position = 0
        self._cursor: FeedCursor | None = None
        self._position = 0
        self._due: dict[tuple[str, str], TrackerBinding] = {}
        """Items with pending updates, by product and id."""
        self._stages: dict[str, Stage | None] = {}
        """Newest stage of each ticket's job: events that keep the stage need no update."""
        self._in_progress: set[tuple[str, str]] = set()
        self._back_offs: dict[str, tuple[datetime, timedelta]] = {}

    async def load(self) -> None:
        """Start at the current feed position if no ticket was ever updated."""
        self._start_position = await self._store.position()

    async def step(self) -> None:
        """Follow the feed and update tickets; trackers are independent of each other.

        Updates for an unavailable tracker are kept and retried after a back-off.
        """
        if not await self._leadership.acquire():
            self._cursor = None
            return
        await self._follow_feed()
        by_place: dict[str, list[tuple[str, str]]] = {}
        for item, place in self._due.items():
            by_place.setdefault(place.name, []).append(item)
        now = self._clock.now()
        ready = [
            name
            for name in by_place
            if name not in self._back_offs or self._back_offs[name][0] <= now
        ]
        async with asyncio.TaskGroup() as updates:
            for name in ready:
                updates.create_task(self._update_all(name, by_place[name]))

    async def update_now(self, caller: Caller, reference: str) -> UpdateResult:
        """Apply all pending updates to the item of a job now.

        Raises Forbidden, NotFound, Invalid for a job without a ticket, TrackerUnavailable,
        TrackerRefused.
        """
        caller.require("echo", OWN_PRODUCTS)
        job = await self._jobs.lookup(caller, reference)
        if job.tracker_item is None:
            fault = Fault("trackerItem", f"the job {job.name} has no ticket to update")
            raise Invalid("the echo", [fault])
        place = self._importer.require_tracker(job.product_id)
        if not place.sends_updates:
            raise TrackerRefused(f"the tracker of {place.name} cannot be updated: it has no url")
        await self._create_cursor(job, seq_before_latest_stage(await self._events(job, 0)))
        applied = await self._update_item(place, (job.product_id, job.tracker_item))
        return UpdateResult(job.tracker_item, applied or 0, pending=applied is None)

    async def _follow_feed(self) -> None:
        """Continue the feed from the position stored by the previous leader."""
        if self._cursor is None:
            await self._take_over()
        assert self._cursor is not None, "a leader has taken over the cursor"
        news = False
        while entries := await self._store.feed(after=self._position):
            for entry in entries:
                news = await self._notice(entry) or news
            self._position = entries[-1].event.position
        if news or self._position - self._cursor.position > UNSAVED_EVENTS_MAX:
            await self._save_position(self._cursor)

    async def _take_over(self) -> None:
        cursor = await self._store.record(FeedCursor, DUTY)
        if cursor is None:
            cursor = FeedCursor(duty=DUTY, position=self._start_position)
            await self._committer.commit(ACTOR, "hear", RecordChange(before=None, after=cursor))
        self._cursor, self._position = cursor, cursor.position
        self._due.clear()
        self._stages.clear()
        for ticket_cursor in await all_records(self._store, TicketCursor):
            if ticket_cursor.expires_at is None:
                self._mark_due(ticket_cursor.product_id, ticket_cursor.item_id)

    async def _notice(self, entry: FeedEntry) -> bool:
        job, event = entry.job, entry.event
        if job is None or job.tracker_item is None or event.type == event_types.TRACKER_ECHOED:
            return False
        if self._stages.get(job.id) is event.stage:
            return False
        self._stages[job.id] = event.stage
        if not self._mark_due(job.product_id, job.tracker_item):
            return False
        return await self._create_cursor(job, event.seq - 1, goes_on=True)

    def _mark_due(self, product: str, item_id: str) -> bool:
        place = self._importer.find_tracker(product)
        if place is None or not place.sends_updates:
            return False
        self._due[product, item_id] = place
        return True

    async def _create_cursor(self, job: Job, seq: int, *, goes_on: bool = False) -> bool:
        """Create the cursor of a job unless it has one; return whether anything was stored.

        With `goes_on`, the cursor of a job that continues after its end is reopened.
        """
        cursor = new_cursor(job, seq=seq)
        before = await self._store.record(TicketCursor, cursor.key)
        if before is not None and (before.expires_at is None or not goes_on):
            return False
        after = cursor if before is None else reopen(before)
        await self._committer.commit(ACTOR, "trail", RecordChange(before=before, after=after))
        return True

    async def _save_position(self, before: FeedCursor) -> None:
        after = msgspec.structs.replace(before, position=self._position, rev=before.rev + 1)
        saved = RecordChange(before=before, after=after, guards=(self._leadership.guard,))
        stored = await self._committer.commit(ACTOR, "hear", saved)
        self._cursor = after if isinstance(stored, Stored) else None

    async def _update_all(self, place: str, items: list[tuple[str, str]]) -> None:
        for item in items:
            try:
                if await self._update_item(self._due[item], item) is not None:
                    self._due.pop(item, None)
            except TrackerUnavailable as away:
                self._back_off(place, away)
                return
        self._back_offs.pop(place, None)

    def _back_off(self, place: str, unavailable: TrackerUnavailable) -> None:
        _, last = self._back_offs.get(place, (None, PAUSE_FIRST / 2))
        pause = min(last * 2, PAUSE_MAX)
        requested = timedelta(seconds=min(unavailable.retry_after_s or 0.0, 3600.0))
        self._back_offs[place] = (self._clock.now() + max(pause, requested), pause)
        log.warning(
            "tracker unavailable", tracker=place, reason=unavailable.detail, again_s=pause.seconds
        )

    async def _update_item(self, place: TrackerBinding, item: tuple[str, str]) -> int | None:
        """Apply all pending updates to an item, older jobs first; return their number.

        None if another coordinator is updating it. Raises TrackerUnavailable.
        """
        if item in self._in_progress:
            return None
        self._in_progress.add(item)
        try:
            total = 0
            for cursor in await all_records(self._store, TicketCursor, prefix=cursor_prefix(*item)):
                applied = await self._apply_pending(place, cursor)
                if applied is None:
                    return None
                total += applied
            return total
        finally:
            self._in_progress.discard(item)

    async def _apply_pending(self, place: TrackerBinding, cursor: TicketCursor) -> int | None:
        applied = 0
        while True:
            job = await self._store.job(cursor.job_id)
            events = await self._events(job, cursor.seq) if job is not None else []
            if job is None or not events:
                return applied
            update = next_update(cursor, job, events, await self._jobs.runs(job))
            if update is None:
                return applied
            now = self._clock.now()
            if cursor.is_busy(self._me, now):
                return None
            intended = with_intent(cursor, update, by=self._me, now=now)
            if not await self._stored(RecordChange(before=cursor, after=intended)):
                return None
            refusal = await self._apply(place, intended, update)
            cursor = advance(intended, update, now=self._clock.now())
            if not await self._record_applied(intended, cursor, update, refusal):
                return None
            applied += 1

    async def _apply(
        self, place: TrackerBinding, cursor: TicketCursor, update: TicketUpdate
    ) -> str | None:
        """Apply one update; return the reason if the tracker refuses it."""
        try:
            async with asyncio.timeout(UPDATE_TIMEOUT_S):
                await apply_update(place.tracker, cursor.item_id, update, cursor.marker(update.seq))
        except TimeoutError:
            raise TrackerUnavailable(
                f"the tracker took longer than {UPDATE_TIMEOUT_S:g} s"
            ) from None
        except (TrackerRefused, NotFound) as no:
            log.warning("ticket not updated", item=cursor.item_id, reason=no.detail)
            return no.detail
        return None

    async def _record_applied(
        self, before: TicketCursor, after: TicketCursor, update: TicketUpdate, refusal: str | None
    ) -> bool:
        """Record the applied update with the job; False if another coordinator continued it."""
        data = {"itemId": after.item_id, "stage": update.stage, "status": update.status}
        data |= {"refused": refusal} if refusal is not None else {}
        for _ in range(ATTEMPTS_MAX):
            job = await self._store.job(after.job_id)
            if job is None:
                return await self._stored(RecordChange(before=before, after=after))
            change = step_of(
                job, None, (event_types.TRACKER_ECHOED, data), actor=ACTOR, now=self._clock.now()
            )
            saved = RecordChange(before=before, after=after)
            if isinstance(await self._committer.commit(ACTOR, "echo", saved, change), Stored):
                return True
            if await self._store.record(TicketCursor, before.key) != before:
                return False
        return False

    async def _stored(self, saved: RecordChange) -> bool:
        return isinstance(await self._committer.commit(ACTOR, "echo", saved), Stored)

    async def _events(self, job: Job, seq: int) -> list[Event]:
        events: list[Event] = []
        while page := await self._store.events(job.id, after=seq, limit=PAGE_MAX):
            events += page
            seq = page[-1].seq
        return events
