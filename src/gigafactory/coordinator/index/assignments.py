"""Leases, commands and offers by factory."""

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

from gigafactory.domain.job.job import Job

CommandKind = Literal["cancel", "preempt"]


class Assignments:
    """Every job that a factory has leased, must stop, or was offered."""

    def __init__(self) -> None:
        self._leased: dict[str, dict[str, CommandKind | None]] = defaultdict(dict)
        self._offered: dict[str, set[str]] = defaultdict(set)
        self._offers: dict[str, tuple[str, datetime]] = {}
        self._expiries: list[tuple[datetime, str]] = []
        self._factories: dict[str, set[str]] = {}

    def put(self, job: Job) -> None:
        """Apply this version of a job."""
        self._put_offer(job)
        for factory_id in self._factories.pop(job.id, ()):
            self._leased[factory_id].pop(job.id, None)
        if job.lease is None and not job.ending:
            return
        held: dict[str, CommandKind | None] = {}
        if job.lease is not None:
            held[job.lease.factory_id] = "preempt" if job.preemption is not None else None
        for lease in job.ending:
            held[lease.factory_id] = "cancel"
        for factory_id, command in held.items():
            self._leased[factory_id][job.id] = command
        self._factories[job.id] = set(held)

    def _put_offer(self, job: Job) -> None:
        before = self._offers.pop(job.id, None)
        if before is not None:
            self._offered[before[0]].discard(job.id)
        if job.offer is not None:
            self._offers[job.id] = (job.offer.factory_id, job.offer.expires_at)
            self._offered[job.offer.factory_id].add(job.id)
            heapq.heappush(self._expiries, (job.offer.expires_at, job.id))

    def leased_jobs(self, factory_id: str) -> Sequence[str]:
        """Return the jobs leased by a factory, including leases that are ending."""
        return sorted(self._leased.get(factory_id, ()))

    def commands(self, factory_id: str) -> Iterator[tuple[str, CommandKind]]:
        """Return the commands for a factory: jobs to cancel or to preempt."""
        for job_id, command in sorted(self._leased.get(factory_id, {}).items()):
            if command is not None:
                yield job_id, command

    def offered_jobs(self, factory_id: str) -> Sequence[str]:
        """Return the jobs with a standing offer to a factory."""
        return sorted(self._offered.get(factory_id, ()))

    def expired_offers(self, now: datetime) -> Sequence[str]:
        """Return the jobs whose offer has expired and was not withdrawn yet."""
        while self._expiries and self._stale(*self._expiries[0]):
            heapq.heappop(self._expiries)
        if not self._expiries or self._expiries[0][0] > now:
            return ()
        return sorted(job_id for job_id, (_, at) in self._offers.items() if at <= now)

    def _stale(self, at: datetime, job_id: str) -> bool:
        offer = self._offers.get(job_id)
        return offer is None or offer[1] != at
