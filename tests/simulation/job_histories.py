"""The history of each job, read from the event log without the domain's rules."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from gigafactory.domain.job.change import FeedEntry
from gigafactory.domain.job.job import Event

FINISHED = {"shipped", "failed", "dead_letter", "cancelled"}
RUN_END_EVENTS = {
    "released",
    "rate_limited",
    "preempted",
    "retry_scheduled",
    "failed",
    "dead_lettered",
    "scope_violation",
    "budget_exceeded",
    "review_requested",
    "tested",
    "shipped",
    "ship_failed",
}
"""Events of a worker that end its lease."""
REVOKING_EVENTS = {"cancelled", "superseded"}
NON_OWNER_EVENTS = {"fenced", "assigned", "offer_expired"}
"""Events that a factory causes without holding the lease."""


Finding = tuple[str, str]
"""The broken promise, and a description."""


class HeldLease(NamedTuple):
    """A lease as recorded in the log."""

    factory: str
    epoch: int
    engine: str | None
    step: str


@dataclass(frozen=True)
class JobState:
    """The state of a job after one event."""

    event: Event
    moment: int
    """The logical time of the commit."""
    live: HeldLease | None
    ending: tuple[HeldLease, ...]
    stage: str
    checkpoint: str | None
    checkpoint_before: str | None

    @property
    def open(self) -> bool:
        """Return whether the job was unfinished."""
        return self.stage not in FINISHED


@dataclass
class JobHistory:
    """The history of one job, one state per event."""

    job_id: str
    product: str
    lock: str | None = None
    retry_max: int = 0
    key: str | None = None
    title: str = ""
    name: str = ""
    priority: str = ""
    states: list[JobState] = field(default_factory=list)

    def at(self, seq: int) -> JobState | None:
        """Return the state after an event; None if there is no such event."""
        return self.states[seq - 1] if 0 < seq <= len(self.states) else None

    def before(self, state: JobState) -> JobState | None:
        """Return the state before the commit of this one."""
        earlier = [s for s in self.states if s.moment < state.moment]
        return earlier[-1] if earlier else None

    @property
    def preempted(self) -> bool:
        """Return whether the job was ever asked to hand back, which shortens its lease."""
        return any(state.event.type == "preempt_requested" for state in self.states)

    def granted(self, epoch: int) -> int:
        """Return the moment at which an epoch was granted."""
        grants = (s for s in self.states if s.event.type == "assigned")
        return next((s.moment for s in grants if s.event.data["epoch"] == epoch), 0)

    def commits(self) -> Iterable[JobState]:
        """Return the state of the job after each commit."""
        return {state.moment: state for state in self.states}.values()

    def live_between(self, factory: str, epoch: int, start: int, end: int) -> bool:
        """Return whether a factory held this epoch at some moment of an interval."""
        for state, following in zip(self.states, [*self.states[1:], None], strict=True):
            gone = following.moment if following else end + 1
            mine = state.live is not None and state.live[:2] == (factory, epoch)
            if mine and state.moment <= end and gone >= start:
                return True
        return False


def read_histories(
    entries: Sequence[FeedEntry], commits: Sequence[tuple[int, int]]
) -> dict[str, JobHistory]:
    """Return the histories of all jobs in a feed."""
    histories: dict[str, JobHistory] = {}
    positions = [position for position, _ in commits]
    for entry in entries:
        event, job = entry.event, entry.job
        if event.job_id is None or job is None:
            continue
        history = histories.get(event.job_id)
        if history is None:
            history = histories[event.job_id] = JobHistory(
                event.job_id,
                event.product_id,
                lock=job.lock,
                retry_max=job.terms.retry_max,
                key=job.idempotency_key,
                title=job.title,
                name=job.name,
                priority=job.priority,
            )
        place = bisect_left(positions, event.position)
        moment = commits[place][1] if place < len(commits) else 0
        history.states.append(_next(history, event, moment))
    return histories


def _next(history: JobHistory, event: Event, moment: int) -> JobState:
    last = history.states[-1] if history.states else None
    live, ending = (last.live, last.ending) if last else (None, ())
    checkpoint = before = last.checkpoint if last else None
    data, kind = event.data, event.type
    if kind == "assigned":
        live = HeldLease(data["factoryId"], data["epoch"], data["engine"], data["step"])
    elif kind == "lease_expired" and live is not None and data["epoch"] == live.epoch:
        live = None
    elif kind in RUN_END_EVENTS | REVOKING_EVENTS:
        live, ending = _ended(event, live, ending)
    elif kind == "checkpoint":
        checkpoint = data["commit"]
    elif kind == "requeued" and data["fresh"]:
        checkpoint = before = None
    stage = str(event.stage)
    return JobState(event, moment, live, ending, stage, checkpoint, before)


def _ended(
    event: Event, live: HeldLease | None, ending: tuple[HeldLease, ...]
) -> tuple[HeldLease | None, tuple[HeldLease, ...]]:
    epoch = event.data.get("epoch")
    if epoch is not None and any(held.epoch == epoch for held in ending):
        return live, tuple(held for held in ending if held.epoch != epoch)
    taken = event.type in REVOKING_EVENTS or not event.actor.startswith("factory:")
    if live is not None and taken and event.type in REVOKING_EVENTS | {"released"}:
        return None, (*ending, live)
    return None, ending


def findings_in(
    history: JobHistory, received_expiries: dict[tuple[str, int], datetime]
) -> Iterator[str]:
    """Check promises 1 to 5, 8, 9, 11, 16, 18, offers and schedules of one job."""
    for found in (
        _numbered(history),
        _leases(history),
        _owners(history),
        _expiries(history, received_expiries),
        _finals(history),
        _attempts(history),
        _checkpoints(history),
        _offers(history),
        _ticks(history),
        _fenced(history),
    ):
        for promise, finding in found:
            yield f"{promise}: {history.title} ({history.job_id}): {finding}"


def _pairs(history: JobHistory) -> Iterable[tuple[JobState | None, JobState]]:
    return zip([None, *history.states], history.states, strict=False)


def _numbered(history: JobHistory) -> Iterator[Finding]:
    for number, (last, state) in enumerate(_pairs(history), 1):
        if state.event.seq != number:
            yield "18", f"event {state.event.type} has number {state.event.seq}, not {number}"
        if last and state.event.at < last.event.at:
            yield "18", f"time goes back at event {number}, {state.event.type}"


def _leases(history: JobHistory) -> Iterator[Finding]:
    least = 1
    for last, state in _pairs(history):
        event = state.event
        if event.type == "assigned":
            epoch = event.data["epoch"]
            if last and last.live:
                yield "1", f"epoch {epoch} is granted while {last.live} is live"
            if epoch < least:
                yield "2", f"epoch {epoch} is granted instead of {least} or more"
            least = epoch + 1
        taken = event.type == "lease_expired" or bool(
            last and last.live and not state.live and len(state.ending) > len(last.ending)
        )
        least += taken


def _owners(history: JobHistory) -> Iterator[Finding]:
    for _, state in _pairs(history):
        event = state.event
        if not event.actor.startswith("factory:") or event.type in NON_OWNER_EVENTS:
            continue
        before = history.before(state)
        factory, epoch = event.actor.removeprefix("factory:"), event.data.get("epoch")
        holders = [h for h in ((before.live, *before.ending) if before else ()) if h]
        if event.type != "released":
            holders = [h for h in holders if before and h is before.live]
        if not any(h.factory == factory and epoch in {None, h.epoch} for h in holders):
            yield (
                "3",
                f"{event.type} of {factory} (epoch {epoch}) is accepted; holders: {holders}",
            )


def _expiries(
    history: JobHistory, received_expiries: dict[tuple[str, int], datetime]
) -> Iterator[Finding]:
    preempted: set[int] = set()
    for last, state in _pairs(history):
        event = state.event
        if event.type == "preempt_requested" and last and last.live:
            preempted.add(last.live.epoch)
        if event.actor != "system:reaper" or "epoch" not in event.data:
            continue
        epoch = event.data["epoch"]
        expiry = received_expiries.get((history.job_id, epoch))
        if expiry and event.at < expiry and epoch not in preempted:
            yield (
                "5",
                f"epoch {epoch} is ended at {event.at:%X.%f}, before {expiry:%X.%f}",
            )


def _finals(history: JobHistory) -> Iterator[Finding]:
    shipped = 0
    for last, state in _pairs(history):
        reopened = state.event.type in {"requeued", "scope_overridden"}
        if last and last.stage in FINISHED and state.stage != last.stage and not reopened:
            yield "8", f"{last.stage} becomes {state.stage} by {state.event.type}"
        if last and last.stage == "shipped" and reopened:
            yield "8", "a shipped job is reopened"
        shipped += state.event.type == "shipped"
    if shipped > 1:
        yield "9", f"shipped {shipped} times"


def _attempts(history: JobHistory) -> Iterator[Finding]:
    retries, due = 0, None
    for state in history.states:
        event = state.event
        if event.type == "requeued":
            retries, due = 0, None
        elif event.type == "retry_scheduled":
            retries += 1
            due = datetime.fromisoformat(event.data["notBefore"])
            if retries > history.retry_max:
                yield "11", f"retry {retries} of {history.retry_max}"
        elif event.type == "dead_lettered" and "last" in event.data and retries < history.retry_max:
            yield "11", f"given up after retry {retries} of {history.retry_max}"
        elif event.type == "assigned" and due and event.at < due:
            yield "11", f"granted at {event.at:%X.%f}, before {due:%X.%f}"


def _checkpoints(history: JobHistory) -> Iterator[Finding]:
    for state in history.states:
        before, now = state.checkpoint_before, state.checkpoint
        if state.event.type != "checkpoint" or before is None or now is None:
            continue
        if _number(now) <= _number(before):
            yield "16", f"checkpoint {before} becomes {now}"


def _number(commit: str) -> int:
    return int(commit.partition(".")[0])


def _offers(history: JobHistory) -> Iterator[Finding]:
    offered: str | None = None
    ends = {"assigned", "offer_expired", "rejected", "changes_requested"} | REVOKING_EVENTS
    for last, state in _pairs(history):
        if state.event.type == "offered":
            if offered:
                yield "9.2", f"offered to {state.event.data['factoryId']} and to {offered}"
            if last and last.live:
                yield "9.2", f"offered while {last.live} is live"
            offered = state.event.data["factoryId"]
        elif state.event.type in ends:
            offered = None


def _ticks(history: JobHistory) -> Iterator[Finding]:
    last: datetime | None = None
    for state in history.states:
        if state.event.type in {"ticked", "tick_skipped"}:
            due = datetime.fromisoformat(state.event.data["tick"])
            if last and due <= last:
                yield "1.5", f"the tick of {due:%X} is handled after that of {last:%X}"
            last = due
            if state.event.at < due:
                yield "1.5", f"the tick of {due:%X} is handled at {state.event.at:%X.%f}"


def _fenced(history: JobHistory) -> Iterator[Finding]:
    seen: set[tuple[str, int]] = set()
    for event in (state.event for state in history.states if state.event.type == "fenced"):
        factory, epoch = event.data["factoryId"], event.data["presented"]
        if (factory, epoch) in seen:
            yield "3.2", f"{factory} is recorded as fenced at epoch {epoch} again"
        seen.add((factory, epoch))
