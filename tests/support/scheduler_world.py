"""A fleet in virtual time for the scheduler's tests."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import timedelta
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gigafactory.domain.fleet.factory import Factory, Vitals
from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.job.job import Ask, Job, Priority, Result, Stage
from gigafactory.domain.job.lease import hand_back
from gigafactory.domain.queue.ready_queue import ReadyQueue
from gigafactory.domain.scheduler.preemption import PreemptionPick, pick_preemption, preempt_for
from gigafactory.domain.scheduler.scheduler import pick_offer
from gigafactory.domain.tenancy.product import Product
from tests.support.builders import NOON, a_job, after
from tests.support.small_fleet import granted, pick_job

ALWAYS = Vitals(last_seen=NOON + timedelta(days=1000))
"""Vitals of a factory that is always online."""
NOTICE_S = 30.0
"""The time that a worker needs to checkpoint and hand back."""


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is submitted at a time and runs for a while."""

    at_s: float
    lasts_s: float
    product_id: str = "notes"
    priority: Priority = Priority.MEDIUM
    ask: Ask = Ask()


class Due(NamedTuple):
    """The end of a run: done, or checkpointed and handed back."""

    at_s: float
    ticket: int
    job_id: str
    epoch: int
    done: bool


class SchedulerSimulation:
    """Runs arrivals against the real scheduler in virtual time."""

    def __init__(
        self,
        factories: Iterable[Factory],
        arrivals: Iterable[Arrival],
        *,
        urgent: AbstractSet[Priority] = frozenset(),
        shares: Mapping[str, float] | None = None,
    ) -> None:
        self.queue, self.fleet = ReadyQueue(), FleetState()
        self._slots = 0
        for factory in factories:
            self._slots += factory.slots
            self.fleet.put(factory)
            self.fleet.record_vitals(factory.id, ALWAYS)
        for product_id, share in (shares or {}).items():
            self.fleet.put_product(Product(id=product_id, share=share))
        self._urgent = urgent
        self._tickets = count()
        self._arriving = [(a.at_s, next(self._tickets), a) for a in arrivals]
        heapify(self._arriving)
        self._ends: list[Due] = []
        self._running: dict[str, float] = {}
        self._remaining_s: dict[str, float] = {}
        self.jobs: dict[str, Job] = {}
        self.arrivals: dict[str, Arrival] = {}
        self.started: dict[str, float] = {}
        """The time in seconds at which each job was first picked."""
        self.order: list[str] = []
        self.done: dict[str, float] = {}
        self.preemptions: list[tuple[float, PreemptionPick]] = []
        self.spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
        """The start and end of each seat's use, by product."""

    def run(self, until_s: float) -> "SchedulerSimulation":
        """Advance time; runs that still run at the end are counted until then."""
        while moments := [heap[0][0] for heap in (self._arriving, self._ends) if heap]:
            now_s = min(moments)
            if now_s >= until_s:
                break
            freed = list(self._end(now_s))
            self._arrive(now_s)
            self._fill(now_s, freed)
            self._preempt(now_s)
        for job_id, start in self._running.items():
            self.spans[self.jobs[job_id].product_id].append((start, until_s))
        return self

    def _end(self, now_s: float) -> Iterator[str]:
        while self._ends and self._ends[0].at_s <= now_s:
            due = heappop(self._ends)
            job = self.jobs[due.job_id]
            if job.lease is None or job.lease.epoch != due.epoch:
                continue
            start = self._running.pop(job.id)
            self._remaining_s[job.id] -= now_s - start
            self.spans[job.product_id].append((start, now_s))
            now = after(now_s)
            if due.done:
                self.done[job.id] = now_s
                self._put(replace(job, stage=Stage.REVIEW, lease=None, updated_at=now))
            else:
                back = hand_back(job, Result.PREEMPTED, "asked to", actor="factory:f", now=now)
                self._put(back.after)
            yield job.lease.factory_id

    def _arrive(self, now_s: float) -> None:
        while self._arriving and self._arriving[0][0] <= now_s:
            _, number, arrival = heappop(self._arriving)
            now = after(arrival.at_s)
            job = a_job(
                id=f"job-{number:06}",
                product_id=arrival.product_id,
                priority=arrival.priority,
                ask=arrival.ask,
                created_at=now,
                stage_since=now,
                updated_at=now,
            )
            self.arrivals[job.id] = arrival
            self._remaining_s[job.id] = arrival.lasts_s
            self._put(job)

    def _fill(self, now_s: float, freed: Iterable[str]) -> None:
        """Grant jobs to factories with free seats, then offer the rest."""
        now = after(now_s)
        for factory_id in freed:
            if (pick := pick_job(self.queue, self.fleet, factory_id, now=now)) is not None:
                self._start(granted(self.jobs[pick.job_id], pick, now), now_s)
        while len(self._running) < self._slots and (
            offer := pick_offer(self.queue, self.fleet, now=now)
        ):
            self._start(granted(self.jobs[offer.job_id], offer, now), now_s)

    def _preempt(self, now_s: float) -> None:
        now, urgent = after(now_s), self._urgent
        while pick := pick_preemption(self.queue, self.fleet, now=now, urgent=urgent):
            victim, job = self.jobs[pick.victim_id], self.jobs[pick.job_id]
            assert victim.lease is not None
            self.preemptions.append((now_s, pick))
            for change in preempt_for(victim, job, actor="system:evictor", now=now):
                self._put(change.after)
            epoch = victim.lease.epoch
            due = Due(now_s + NOTICE_S, next(self._tickets), victim.id, epoch, done=False)
            heappush(self._ends, due)

    def _start(self, job: Job, now_s: float) -> None:
        assert job.lease is not None
        self.started.setdefault(job.id, now_s)
        self.order.append(job.id)
        self._running[job.id] = now_s
        self._put(job)
        ends = now_s + self._remaining_s[job.id]
        heappush(self._ends, Due(ends, next(self._tickets), job.id, job.lease.epoch, done=True))

    def _put(self, job: Job) -> None:
        self.jobs[job.id] = job
        self.queue.put(job)
        self.fleet.put_job(job)

    def served(self, since_s: float, until_s: float) -> Counter[str]:
        """Return the seat-seconds of each product between two times."""
        return Counter(
            {
                product_id: int(sum(max(0.0, min(e, until_s) - max(s, since_s)) for s, e in spans))
                for product_id, spans in self.spans.items()
            }
        )

    def waits(self) -> dict[str, float]:
        """Return the waiting time of each started job."""
        return {i: self.started[i] - self.arrivals[i].at_s for i in self.started}

    def started_jobs(self, product_id: str) -> set[str]:
        """Return the started jobs of a product."""
        return {i for i in self.started if self.arrivals[i].product_id == product_id}
