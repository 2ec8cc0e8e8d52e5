"""The checker of real processes: compares their history and responses with the store."""

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
from tests.support.crash.retrying_client import ReceivedResponse

LEASE_END_EVENTS = {
    *("lease_expired", "released", "preempted", "rate_limited", "retry_scheduled"),
    *("review_requested", "tested", "failed", "dead_lettered", "cancelled", "superseded"),
    *("shipped", "ship_failed", "scope_violation", "budget_exceeded"),
}
OFFER_END_EVENTS = {"offer_expired", "assigned", "cancelled", "superseded", "rejected"} | {
    "changes_requested"
}


class RecordedChange(msgspec.Struct, frozen=True, rename="camel"):
    """One change of a commit, as recorded in the history."""

    job: str
    stage: str
    seq: int
    rev: int
    lease_epoch: int
    holder: str | None
    events: tuple[str, ...]


class RecordedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded request and its outcome; None if unknown."""

    who: str
    what: str
    epoch: int | None
    changes: tuple[RecordedChange, ...]
    accepted: bool | None = None
    position: int | None = None


def read_requests(*files: Path) -> list[RecordedRequest]:
    """Return the requests of all processes of one or more coordinators."""
    found: dict[tuple[str, int], RecordedRequest] = {}
    for file in files:
        for line in map(json.loads, file.read_text().splitlines()):
            key = (line["by"], line["n"])
            if line["kind"] == "asked":
                found[key] = msgspec.convert(line, RecordedRequest)
            else:
                found[key] = msgspec.structs.replace(
                    found[key], accepted=line["accepted"], position=line["position"]
                )
    return list(found.values())


@asynccontextmanager
async def open_store(location: str | Path) -> AsyncIterator[Store]:
    """Open the store of a stopped coordinator, at its address or in its file."""
    if isinstance(location, Path):
        async with SqliteStore.open(location) as sqlite:
            yield sqlite
    else:
        async with PostgresStore.open(location) as postgres:
            yield postgres


async def read_store(store: Store) -> tuple[list[FeedEntry], list[Job]]:
    """Return all events and all jobs of a store."""
    entries: list[FeedEntry] = []
    while page := await store.feed(after=entries[-1].event.position if entries else 0):
        entries += page
    jobs: list[Job] = []
    while found := await store.find_jobs(JobQuery(after=jobs[-1].id if jobs else None, limit=500)):
        jobs += found
    return entries, jobs


async def find_violations(
    store: Store, requests: Sequence[RecordedRequest], responses: Sequence[ReceivedResponse]
) -> list[str]:
    """Return all violations; empty if every promise holds."""
    entries, jobs = await read_store(store)
    held = set((await store.keys_with_prefix("slot/")).values())
    busy = {job.id for job in jobs if job.lease is not None or job.ending}
    idle = [f"{job_id} holds a slot without a lease" for job_id in held - busy]
    return [*idle, *HistoryChecker(entries, jobs, requests, responses).findings()]


class HistoryChecker:
    """All checks; compares records and shares no rule with the domain."""

    def __init__(
        self,
        entries: Sequence[FeedEntry],
        jobs: Sequence[Job],
        requests: Sequence[RecordedRequest],
        responses: Sequence[ReceivedResponse],
    ) -> None:
        self._events = [entry.event for entry in entries]
        self._jobs = {job.id: job for job in jobs}
        self._requests = requests
        self._responses = responses
        self._removed_jobs = {
            event.data["jobId"]
            for event in self._events
            if event.type in {"job_archived", "job_deleted"}
        }
        """Jobs that were archived or deleted."""
        self._events_by_job: dict[str, list[Event]] = defaultdict(list)
        for event in self._events:
            if event.job_id is not None:
                self._events_by_job[event.job_id].append(event)

    def findings(self) -> Iterator[str]:
        """Check every promise in turn."""
        yield from self._gaps()
        yield from self._accepted_changes()
        yield from self._returned_jobs()
        yield from self._leases()
        yield from self._grants()
        yield from self._offers()

    def _gaps(self) -> Iterator[str]:
        """Check that the feed and every job's log are complete."""
        positions = [event.position for event in self._events]
        whole = range(1, (positions[-1] if self._removed_jobs else len(positions)) + 1)
        if positions != list(whole) and not (
            self._removed_jobs and positions == sorted(set(positions))
        ):
            yield f"the feed has gaps: {positions}"
        for job in self._jobs.values():
            numbers = [event.seq for event in self._events_by_job[job.id]]
            if numbers != list(range(1, job.seq + 1)):
                yield f"{job.name} is at event {job.seq} and has {numbers}"

    def _is_logged(self, change: RecordedChange) -> bool:
        """Return whether the log has the events of a change at its position."""
        first = change.seq - len(change.events)
        events = self._events_by_job.get(change.job, [])[first : change.seq]
        return tuple(event.type for event in events) == change.events

    def _accepted_changes(self) -> Iterator[str]:
        """Check that every accepted change is in the log, alone at its position."""
        places: set[tuple[str, int]] = set()
        for request in self._requests:
            if not request.accepted:
                continue
            if (request.position or 0) > self._events[-1].position:
                yield f"{request.what} of {request.who} is lost: no position {request.position}"
            for change in request.changes:
                if change.job not in self._removed_jobs and not self._is_logged(change):
                    yield f"{request.what} of {request.who} is lost: {change}"
                if change.events and (change.job, change.seq) in places:
                    yield f"{request.what} of {request.who} has a position that is taken: {change}"
                places.add((change.job, change.seq))

    def _returned_jobs(self) -> Iterator[str]:
        """Check that every job in a response was committed and is stored."""
        committed: dict[tuple[str, int, str, int], bool] = defaultdict(bool)
        for request in self._requests:
            if request.accepted is not False:
                for change in request.changes:
                    key = (change.job, change.rev, change.stage, change.lease_epoch)
                    is_logged = change.job in self._removed_jobs or self._is_logged(change)
                    committed[key] = committed[key] or is_logged
        for response in self._responses:
            for job in _jobs(response):
                if not committed[job["id"], job["rev"], job["stage"], job["leaseEpoch"]]:
                    yield f"{response.method} {response.path} returned an uncommitted job: {job}"
                if job["id"] in self._removed_jobs:
                    continue
                if job["id"] not in self._jobs or self._jobs[job["id"]].rev < job["rev"]:
                    yield f"{response.method} {response.path} returned a lost job: {job}"

    def _leases(self) -> Iterator[str]:
        """Check that leases do not overlap and that epochs grow."""
        for job_id, events in self._events_by_job.items():
            holder, newest = None, 0
            for event in events:
                if event.type == "assigned":
                    if holder is not None:
                        yield f"{job_id} went to {event.data['factoryId']} while {holder} held it"
                    if event.data["epoch"] <= newest:
                        yield f"{job_id} was granted epoch {event.data['epoch']} after {newest}"
                    holder, newest = event.data["factoryId"], event.data["epoch"]
                elif event.type in LEASE_END_EVENTS:
                    holder = None
            job = self._jobs.get(job_id)
            lease = job.lease if job else None
            if (lease.factory_id if lease else None) != holder:
                yield f"{job_id} has {lease}, but {holder} in the log"

    def _grants(self) -> Iterator[str]:
        """Check that a grant belongs to its client alone; one request, one grant."""
        owners = {
            (event.job_id, event.data["epoch"]): event.data["factoryId"]
            for event in self._events
            if event.type == "assigned"
        }
        keys: dict[tuple[str | None, int], str] = {}
        for response in self._responses:
            for grant in _grants(response):
                key = (grant["job"]["id"], grant["leaseEpoch"])
                if owners.get(key) != response.who:
                    yield f"{response.who} was granted {key} of {owners.get(key)}"
                if keys.setdefault(key, response.key) != response.key:
                    yield f"{key} was granted to two requests of {response.who}"

    def _offers(self) -> Iterator[str]:
        """Check that a job is offered to one factory at a time."""
        for job_id, events in self._events_by_job.items():
            current_offer = None
            for event in events:
                if event.type == "offered":
                    if current_offer is not None:
                        yield f"{job_id} has two offers at a time: {current_offer}, {event.data}"
                    current_offer = event.data
                elif event.type in OFFER_END_EVENTS:
                    current_offer = None


def _grants(response: ReceivedResponse) -> list[dict[str, Any]]:
    body = response.body if response.ok and isinstance(response.body, dict) else {}
    return [body] if {"runId", "leaseEpoch"} <= body.keys() else list(body.get("grants", ()))


def _jobs(response: ReceivedResponse) -> list[dict[str, Any]]:
    """Return the jobs in a response."""
    body = response.body if response.ok and isinstance(response.body, dict) else {}
    found = [*body.get("jobs", ()), *(grant["job"] for grant in _grants(response))]
    return [*found, *([body] if "leaseEpoch" in body and "stage" in body else [])]
