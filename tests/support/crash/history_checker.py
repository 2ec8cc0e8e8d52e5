"""The judge of real processes: their history, what clients were told, and the store afterwards."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from gigafactory.coordinator.core.ports import JobQuery, Store
from gigafactory.domain.job.change import FeedEntry
from gigafactory.domain.job.job import Event, Job
from gigafactory.store.postgres.store import PostgresStore
from gigafactory.store.sqlite.store import SqliteStore
from tests.support.crash.retrying_client import Note

ENDS_A_LEASE = {
    *("lease_expired", "released", "preempted", "rate_limited", "retry_scheduled"),
    *("review_requested", "tested", "failed", "dead_lettered", "cancelled", "superseded"),
    *("shipped", "ship_failed", "scope_violation", "budget_exceeded"),
}
ENDS_AN_OFFER = {"offer_expired", "assigned", "cancelled", "superseded", "rejected"} | {
    "changes_requested"
}


class Noted(msgspec.Struct, frozen=True, rename="camel"):
    """One change of a commit, as the history has it."""

    job: str
    stage: str
    seq: int
    rev: int
    lease_epoch: int
    holder: str | None
    events: tuple[str, ...]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the history and its outcome; None if unknown."""

    who: str
    what: str
    epoch: int | None
    changes: tuple[Noted, ...]
    accepted: bool | None = None
    position: int | None = None


def asked_in(*files: Path) -> list[Asked]:
    """The questions of all lives of one or more coordinators."""
    found: dict[tuple[str, int], Asked] = {}
    for file in files:
        for line in map(json.loads, file.read_text().splitlines()):
            place = (line["by"], line["n"])
            if line["kind"] == "asked":
                found[place] = msgspec.convert(line, Asked)
            else:
                found[place] = msgspec.structs.replace(
                    found[place], accepted=line["accepted"], position=line["position"]
                )
    return list(found.values())


@asynccontextmanager
async def opened(where: str | Path) -> AsyncIterator[Store]:
    """The store that a coordinator has left, at its address or in its file."""
    if isinstance(where, Path):
        async with SqliteStore.open(where) as embedded:
            yield embedded
    else:
        async with PostgresStore.open(where) as shared:
            yield shared


async def everything(store: Store) -> tuple[list[FeedEntry], list[Job]]:
    """All events and all jobs of a store."""
    entries: list[FeedEntry] = []
    while page := await store.feed(after=entries[-1].event.position if entries else 0):
        entries += page
    jobs: list[Job] = []
    while found := await store.find_jobs(JobQuery(after=jobs[-1].id if jobs else None, limit=500)):
        jobs += found
    return entries, jobs


async def faults(store: Store, asked: Sequence[Asked], notes: Sequence[Note]) -> list[str]:
    """All that is wrong; nothing when every promise was kept."""
    entries, jobs = await everything(store)
    held = set((await store.keys_with_prefix("slot/")).values())
    busy = {job.id for job in jobs if job.lease is not None or job.ending}
    idle = [f"{job_id} has a slot and no lease" for job_id in held - busy]
    return [*idle, *Judge(entries, jobs, asked, notes).findings()]


class Judge:
    """Knows no rule of the domain: it compares what was said with what is there."""

    def __init__(
        self,
        entries: Sequence[FeedEntry],
        jobs: Sequence[Job],
        asked: Sequence[Asked],
        notes: Sequence[Note],
    ) -> None:
        self._events = [entry.event for entry in entries]
        self._jobs = {job.id: job for job in jobs}
        self._asked = asked
        self._notes = notes
        self._let_go = {
            event.data["jobId"]
            for event in self._events
            if event.type in {"job_archived", "job_deleted"}
        }
        """Jobs of which the store was told to keep nothing."""
        self._story: dict[str, list[Event]] = defaultdict(list)
        for event in self._events:
            if event.job_id is not None:
                self._story[event.job_id].append(event)

    def findings(self) -> Iterator[str]:
        """Every promise in turn."""
        yield from self._gaps()
        yield from self._acknowledged()
        yield from self._told()
        yield from self._leases()
        yield from self._grants()
        yield from self._offers()

    def _gaps(self) -> Iterator[str]:
        """The feed and every job's log are whole."""
        positions = [event.position for event in self._events]
        whole = range(1, (positions[-1] if self._let_go else len(positions)) + 1)
        if positions != list(whole) and not (self._let_go and positions == sorted(set(positions))):
            yield f"the feed has gaps: {positions}"
        for job in self._jobs.values():
            numbers = [event.seq for event in self._story[job.id]]
            if numbers != list(range(1, job.seq + 1)):
                yield f"{job.name} is at event {job.seq} and has {numbers}"

    def _there(self, change: Noted) -> bool:
        """Whether a change is in the log, event by event, at its place."""
        first = change.seq - len(change.events)
        story = self._story.get(change.job, [])[first : change.seq]
        return tuple(event.type for event in story) == change.events

    def _acknowledged(self) -> Iterator[str]:
        """What the store has said yes to is there, and nothing else has its place."""
        places: set[tuple[str, int]] = set()
        for asked in self._asked:
            if not asked.accepted:
                continue
            if (asked.position or 0) > self._events[-1].position:
                yield f"{asked.what} of {asked.who} is lost: the feed ends before {asked.position}"
            for change in asked.changes:
                if change.job not in self._let_go and not self._there(change):
                    yield f"{asked.what} of {asked.who} is lost: {change}"
                if change.events and (change.job, change.seq) in places:
                    yield f"{asked.what} of {asked.who} has the place of another: {change}"
                places.add((change.job, change.seq))

    def _told(self) -> Iterator[str]:
        """What a client was told of a job came to be, and is there."""
        known: dict[tuple[str, int, str, int], bool] = defaultdict(bool)
        for asked in self._asked:
            if asked.accepted is not False:
                for change in asked.changes:
                    place = (change.job, change.rev, change.stage, change.lease_epoch)
                    there = change.job in self._let_go or self._there(change)
                    known[place] = known[place] or there
        for note in self._notes:
            for told in _jobs(note):
                if not known[told["id"], told["rev"], told["stage"], told["leaseEpoch"]]:
                    yield f"{note.who} was told by {note.method} {note.path} what is not: {told}"
                if told["id"] in self._let_go:
                    continue
                if told["id"] not in self._jobs or self._jobs[told["id"]].rev < told["rev"]:
                    yield f"{note.who} was told of {told['id']} what is lost: {told}"

    def _leases(self) -> Iterator[str]:
        """One live lease at a time; epochs grow, and each is one factory's."""
        for job_id, story in self._story.items():
            holder, newest = None, 0
            for event in story:
                if event.type == "assigned":
                    if holder is not None:
                        yield f"{job_id} went to {event.data['factoryId']} while {holder} had it"
                    if event.data["epoch"] <= newest:
                        yield f"{job_id} was granted epoch {event.data['epoch']} after {newest}"
                    holder, newest = event.data["factoryId"], event.data["epoch"]
                elif event.type in ENDS_A_LEASE:
                    holder = None
            job = self._jobs.get(job_id)
            lease = job.lease if job else None
            if (lease.factory_id if lease else None) != holder:
                yield f"{job_id} is with {lease}, and the log says {holder}"

    def _grants(self) -> Iterator[str]:
        """A client with a granted job has it alone; one request, one grant."""
        owners = {
            (event.job_id, event.data["epoch"]): event.data["factoryId"]
            for event in self._events
            if event.type == "assigned"
        }
        keys: dict[tuple[str | None, int], str] = {}
        for note in self._notes:
            for grant in _grants(note):
                place = (grant["job"]["id"], grant["leaseEpoch"])
                if owners.get(place) != note.who:
                    yield f"{note.who} was told of {place}, which {owners.get(place)} has"
                if keys.setdefault(place, note.key) != note.key:
                    yield f"{place} was granted to two requests of {note.who}"

    def _offers(self) -> Iterator[str]:
        """A job is offered to one factory at a time."""
        for job_id, story in self._story.items():
            standing = None
            for event in story:
                if event.type == "offered":
                    if standing is not None:
                        yield f"{job_id} was offered twice at a time: {standing}, {event.data}"
                    standing = event.data
                elif event.type in ENDS_AN_OFFER:
                    standing = None


def _grants(note: Note) -> list[dict[str, Any]]:
    body = note.body if note.ok and isinstance(note.body, dict) else {}
    return [body] if {"runId", "leaseEpoch"} <= body.keys() else list(body.get("grants", ()))


def _jobs(note: Note) -> list[dict[str, Any]]:
    """The jobs that an answer tells of."""
    body = note.body if note.ok and isinstance(note.body, dict) else {}
    found = [*body.get("jobs", ()), *(grant["job"] for grant in _grants(note))]
    return [*found, *([body] if "leaseEpoch" in body and "stage" in body else [])]
