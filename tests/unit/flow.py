"""A fleet in virtual time for the scheduler's tests: jobs come, are picked, run and go."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import count

import msgspec
from msgspec.structs import replace

from gigafactory.domain.factory import Factory, Vitals
from gigafactory.domain.fleet import FleetView
from gigafactory.domain.job import Ask, Job, Priority, Stage
from gigafactory.domain.product import Product
from gigafactory.domain.ready import ReadyQueue
from gigafactory.domain.scheduler import pick_job, pick_offer
from tests.unit.small_fleet import granted
from tests.worlds import NOON, a_job, after

ALWAYS = Vitals(last_seen=NOON + timedelta(days=1000))
"""Of a factory that is heard of for as long as anybody looks."""


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """One job that is handed in at a moment, and takes so long."""

    at_s: float
    lasts_s: float
    product_id: str = "notes"
    priority: Priority = Priority.MEDIUM
    ask: Ask = Ask()


class Flow:
    """Plays arrivals against the real scheduler; nothing but the arrivals decides anything."""

    def __init__(
        self, factories: Iterable[Factory], arrivals: Iterable[Arrival], **shares: float
    ) -> None:
        self.queue, self.fleet = ReadyQueue(), FleetView()
        self._slots = 0
        for factory in factories:
            self._slots += factory.slots
            self.fleet.put(factory)
            self.fleet.seen(factory.id, ALWAYS)
        for product_id, share in shares.items():
            self.fleet.put_product(Product(id=product_id, share=share))
        self._tickets = count()
        self._due = [(a.at_s, next(self._tickets), a) for a in arrivals]
        heapify(self._due)
        self._ends: list[tuple[float, int, Job]] = []
        self.jobs: dict[str, Job] = {}
        self.arrivals: dict[str, Arrival] = {}
        self.started: dict[str, float] = {}
        """When each job was picked, in seconds since the beginning."""
        self.order: list[str] = []
        self.spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
        """From when until when seats were taken, by product."""

    def play(self, until_s: float) -> "Flow":
        """Let time pass; what still runs then is counted until then."""
        while moments := [heap[0][0] for heap in (self._due, self._ends) if heap]:
            now_s = min(moments)
            if now_s >= until_s:
                break
            freed = [job for job in self._ended(now_s) if job is not None]
            self._arrive(now_s)
            self._fill(now_s, freed)
        for now_s, _, job in self._ends:
            start = self.started[job.id]
            self.spans[job.product_id].append((start, min(now_s, until_s)))
        return self

    def _ended(self, now_s: float) -> Iterable[str]:
        while self._ends and self._ends[0][0] <= now_s:
            _, _, job = heappop(self._ends)
            assert job.lease is not None
            self.spans[job.product_id].append((self.started[job.id], now_s))
            self._put(replace(job, stage=Stage.REVIEW, lease=None, updated_at=after(now_s)))
            yield job.lease.factory_id

    def _arrive(self, now_s: float) -> None:
        while self._due and self._due[0][0] <= now_s:
            _, number, arrival = heappop(self._due)
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
            self._put(job)

    def _fill(self, now_s: float, freed: Iterable[str]) -> None:
        """Give work to those who ask, and then offer what is left."""
        now = after(now_s)
        for factory_id in freed:
            if (pick := pick_job(self.queue, self.fleet, factory_id, now=now)) is not None:
                self._start(granted(self.jobs[pick.job_id], pick, now), now_s)
        while len(self._ends) < self._slots and (
            offer := pick_offer(self.queue, self.fleet, now=now)
        ):
            self._start(granted(self.jobs[offer.job_id], offer, now), now_s)

    def _start(self, job: Job, now_s: float) -> None:
        self.started[job.id] = now_s
        self.order.append(job.id)
        self._put(job)
        ends = now_s + self.arrivals[job.id].lasts_s
        heappush(self._ends, (ends, next(self._tickets), job))

    def _put(self, job: Job) -> None:
        self.jobs[job.id] = job
        self.queue.put(job)
        self.fleet.put_job(job)

    def served(self, since_s: float, until_s: float) -> Counter[str]:
        """The seat-seconds of each product between two moments."""
        return Counter(
            {
                product_id: int(sum(max(0.0, min(e, until_s) - max(s, since_s)) for s, e in spans))
                for product_id, spans in self.spans.items()
            }
        )

    def waits(self) -> dict[str, float]:
        """How long each job that was started had waited."""
        return {i: self.started[i] - self.arrivals[i].at_s for i in self.started}

    def of(self, product_id: str) -> set[str]:
        """The jobs of a product that were started."""
        return {i for i in self.started if self.arrivals[i].product_id == product_id}
