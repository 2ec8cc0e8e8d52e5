"""The event log read as a person would: who held what when, without the domain's rules."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from gigafactory.domain.job.change import FeedEntry
from gigafactory.domain.job.job import Event

OVER = {"shipped", "failed", "dead_letter", "cancelled"}
ENDS_A_RUN = {
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
"""What a worker's own word ends its lease with."""
TAKES_AWAY = {"cancelled", "superseded"}
NOT_THE_OWNERS = {"fenced", "assigned", "offer_expired"}
"""Events that a factory causes without holding the lease."""


Fault = tuple[str, str]
"""The promise that was broken, and how."""


class Held(NamedTuple):
    """A lease as the log tells of it."""

    factory: str
    epoch: int
    engine: str | None
    step: str


@dataclass(frozen=True)
class Scene:
    """How a job stood after one event."""

    event: Event
    moment: int
    """When the store took it in."""
    live: Held | None
    ending: tuple[Held, ...]
    stage: str
    checkpoint: str | None
    checkpoint_before: str | None

    @property
    def open(self) -> bool:
        """Whether the job was not over."""
        return self.stage not in OVER


@dataclass
class Tale:
    """One job's story, scene by scene."""

    job_id: str
    product: str
    lock: str | None = None
    retry_max: int = 0
    key: str | None = None
    title: str = ""
    name: str = ""
    priority: str = ""
    scenes: list[Scene] = field(default_factory=list)

    def at(self, seq: int) -> Scene | None:
        """The scene of an event; None when there is no such event."""
        return self.scenes[seq - 1] if 0 < seq <= len(self.scenes) else None

    def before(self, scene: Scene) -> Scene | None:
        """The scene before the commit that brought this one."""
        earlier = [s for s in self.scenes if s.moment < scene.moment]
        return earlier[-1] if earlier else None

    @property
    def preempted(self) -> bool:
        """Whether it was ever asked back, which shortens a lease."""
        return any(scene.event.type == "preempt_requested" for scene in self.scenes)

    def granted(self, epoch: int) -> int:
        """The moment at which an epoch was granted."""
        grants = (s for s in self.scenes if s.event.type == "assigned")
        return next((s.moment for s in grants if s.event.data["epoch"] == epoch), 0)

    def commits(self) -> Iterable[Scene]:
        """How the job stood after each commit."""
        return {scene.moment: scene for scene in self.scenes}.values()

    def live_between(self, factory: str, epoch: int, start: int, end: int) -> bool:
        """Whether a factory held this epoch at some moment of a stretch."""
        for scene, following in zip(self.scenes, [*self.scenes[1:], None], strict=True):
            gone = following.moment if following else end + 1
            mine = scene.live is not None and scene.live[:2] == (factory, epoch)
            if mine and scene.moment <= end and gone >= start:
                return True
        return False


def tell(entries: Sequence[FeedEntry], commits: Sequence[tuple[int, int]]) -> dict[str, Tale]:
    """The tales of all jobs in a feed."""
    tales: dict[str, Tale] = {}
    positions = [position for position, _ in commits]
    for entry in entries:
        event, job = entry.event, entry.job
        if event.job_id is None or job is None:
            continue
        tale = tales.get(event.job_id)
        if tale is None:
            tale = tales[event.job_id] = Tale(
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
        tale.scenes.append(_next(tale, event, moment))
    return tales


def _next(tale: Tale, event: Event, moment: int) -> Scene:
    last = tale.scenes[-1] if tale.scenes else None
    live, ending = (last.live, last.ending) if last else (None, ())
    checkpoint = before = last.checkpoint if last else None
    data, kind = event.data, event.type
    if kind == "assigned":
        live = Held(data["factoryId"], data["epoch"], data["engine"], data["step"])
    elif kind == "lease_expired" and live is not None and data["epoch"] == live.epoch:
        live = None
    elif kind in ENDS_A_RUN | TAKES_AWAY:
        live, ending = _ended(event, live, ending)
    elif kind == "checkpoint":
        checkpoint = data["commit"]
    elif kind == "requeued" and data["fresh"]:
        checkpoint = before = None
    stage = str(event.stage)
    return Scene(event, moment, live, ending, stage, checkpoint, before)


def _ended(
    event: Event, live: Held | None, ending: tuple[Held, ...]
) -> tuple[Held | None, tuple[Held, ...]]:
    epoch = event.data.get("epoch")
    if epoch is not None and any(held.epoch == epoch for held in ending):
        return live, tuple(held for held in ending if held.epoch != epoch)
    taken = event.type in TAKES_AWAY or not event.actor.startswith("factory:")
    if live is not None and taken and event.type in TAKES_AWAY | {"released"}:
        return None, (*ending, live)
    return None, ending


def faults_in(tale: Tale, told_until: dict[tuple[str, int], datetime]) -> Iterator[str]:
    """What one job's story tells against promises 1 to 5, 8, 9, 11, 16, 18 and that of offers."""
    for found in (
        _numbered(tale),
        _leases(tale),
        _owners(tale),
        _expiries(tale, told_until),
        _finals(tale),
        _attempts(tale),
        _checkpoints(tale),
        _offers(tale),
        _ticks(tale),
        _fenced(tale),
    ):
        for promise, fault in found:
            yield f"{promise}: {tale.title} ({tale.job_id}): {fault}"


def _pairs(tale: Tale) -> Iterable[tuple[Scene | None, Scene]]:
    return zip([None, *tale.scenes], tale.scenes, strict=False)


def _numbered(tale: Tale) -> Iterator[Fault]:
    for number, (last, scene) in enumerate(_pairs(tale), 1):
        if scene.event.seq != number:
            yield "18", f"event {scene.event.type} has number {scene.event.seq}, not {number}"
        if last and scene.event.at < last.event.at:
            yield "18", f"time goes back at event {number}, {scene.event.type}"


def _leases(tale: Tale) -> Iterator[Fault]:
    least = 1
    for last, scene in _pairs(tale):
        event = scene.event
        if event.type == "assigned":
            epoch = event.data["epoch"]
            if last and last.live:
                yield "1", f"epoch {epoch} is granted while {last.live} is live"
            if epoch < least:
                yield "2", f"epoch {epoch} is granted; at least {least} was due"
            least = epoch + 1
        taken = event.type == "lease_expired" or bool(
            last and last.live and not scene.live and len(scene.ending) > len(last.ending)
        )
        least += taken


def _owners(tale: Tale) -> Iterator[Fault]:
    for _, scene in _pairs(tale):
        event = scene.event
        if not event.actor.startswith("factory:") or event.type in NOT_THE_OWNERS:
            continue
        before = tale.before(scene)
        who, epoch = event.actor.removeprefix("factory:"), event.data.get("epoch")
        holders = [h for h in ((before.live, *before.ending) if before else ()) if h]
        if event.type != "released":
            holders = [h for h in holders if before and h is before.live]
        if not any(h.factory == who and epoch in {None, h.epoch} for h in holders):
            yield "3", f"{event.type} of {who} (epoch {epoch}) is accepted, while {holders} held it"


def _expiries(tale: Tale, told_until: dict[tuple[str, int], datetime]) -> Iterator[Fault]:
    asked: set[int] = set()
    for last, scene in _pairs(tale):
        event = scene.event
        if event.type == "preempt_requested" and last and last.live:
            asked.add(last.live.epoch)
        if event.actor != "system:reaper" or "epoch" not in event.data:
            continue
        epoch = event.data["epoch"]
        until = told_until.get((tale.job_id, epoch))
        if until and event.at < until and epoch not in asked:
            yield (
                "5",
                f"epoch {epoch} is ended at {event.at:%X.%f}, and was to last to {until:%X.%f}",
            )


def _finals(tale: Tale) -> Iterator[Fault]:
    shipped = 0
    for last, scene in _pairs(tale):
        reopened = scene.event.type in {"requeued", "scope_overridden"}
        if last and last.stage in OVER and scene.stage != last.stage and not reopened:
            yield "8", f"{last.stage} becomes {scene.stage} by {scene.event.type}"
        if last and last.stage == "shipped" and reopened:
            yield "8", "what was shipped is reopened"
        shipped += scene.event.type == "shipped"
    if shipped > 1:
        yield "9", f"shipped {shipped} times"


def _attempts(tale: Tale) -> Iterator[Fault]:
    retries, due = 0, None
    for scene in tale.scenes:
        event = scene.event
        if event.type == "requeued":
            retries, due = 0, None
        elif event.type == "retry_scheduled":
            retries += 1
            due = datetime.fromisoformat(event.data["notBefore"])
            if retries > tale.retry_max:
                yield "11", f"retry {retries}, of {tale.retry_max}"
        elif event.type == "assigned" and due and event.at < due:
            yield "11", f"granted at {event.at:%X.%f}, and not before {due:%X.%f}"


def _checkpoints(tale: Tale) -> Iterator[Fault]:
    for scene in tale.scenes:
        before, now = scene.checkpoint_before, scene.checkpoint
        if scene.event.type != "checkpoint" or before is None or now is None:
            continue
        if _number(now) <= _number(before):
            yield "16", f"checkpoint {before} becomes {now}"


def _number(commit: str) -> int:
    return int(commit.partition(".")[0])


def _offers(tale: Tale) -> Iterator[Fault]:
    offered: str | None = None
    ends = {"assigned", "offer_expired", "rejected", "changes_requested"} | TAKES_AWAY
    for last, scene in _pairs(tale):
        if scene.event.type == "offered":
            if offered:
                yield "9.2", f"offered to {scene.event.data['factoryId']} and to {offered}"
            if last and last.live:
                yield "9.2", f"offered while {last.live} is live"
            offered = scene.event.data["factoryId"]
        elif scene.event.type in ends:
            offered = None


def _ticks(tale: Tale) -> Iterator[Fault]:
    for scene in tale.scenes:
        if scene.event.type in {"ticked", "tick_skipped"}:
            due = datetime.fromisoformat(scene.event.data["tick"])
            if scene.event.at < due:
                yield "1.5", f"the tick of {due:%X} is served at {scene.event.at:%X.%f}"


def _fenced(tale: Tale) -> Iterator[Fault]:
    seen: set[tuple[str, int]] = set()
    for event in (scene.event for scene in tale.scenes if scene.event.type == "fenced"):
        place = (event.data["factoryId"], event.data["presented"])
        if place in seen:
            yield "3.2", f"{place[0]} is noted as fenced at epoch {place[1]} again"
        seen.add(place)
