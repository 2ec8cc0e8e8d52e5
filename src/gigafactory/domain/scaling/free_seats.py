"""Assign waiting jobs to the free seats of the present fleet, counting every seat once."""

from collections.abc import Iterator
from datetime import datetime

from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.matching import Fit
from gigafactory.domain.fleet.pool import Member, Pool, Presence
from gigafactory.domain.queue.queued_job import JobClass, QueuedJob

Engines = tuple[str | None, ...]
"""The engines whose seats a job may use; None for a slot without an engine."""

Search = tuple[Pool, Engines, frozenset[str], frozenset[str]]
"""A pool, the engines, the required factories (empty for any), and the excluded factories."""


class FreeSeats:
    """The free seats at one point in time, taken one by one."""

    def __init__(self, fleet: FleetState, now: datetime) -> None:
        self.busy_soon: set[str] = set()
        """The factories that will get a job."""
        self.fleet_seats_left = {
            engine: left
            for engine in fleet.seat_map.fleet_seats
            if (left := fleet.seat_map.fleet_seats_free(engine)) is not None
        }
        """The free fleet-wide seats of each engine that has a limit."""
        self._fleet = fleet
        self._now = now
        self._slots: dict[str, int] = {}
        self._seats: dict[tuple[str, str], int] = {}
        self._counted: dict[Search, int] = {}
        self._used_up: set[Search] = set()

    def count_fitting(self, kind: JobClass, first: QueuedJob) -> int:
        """Return the number of free seats that fit a class, ignoring other classes."""
        return sum(self._count(search) for search in self._searches(kind, first))

    def take(self, kind: JobClass, first: QueuedJob, wanted: int) -> int:
        """Take up to `wanted` of the remaining seats for a class; return how many were taken."""
        given = 0
        for search in self._searches(kind, first):
            if given < wanted:
                given += self._take(search, wanted - given)
        return given

    def _searches(self, kind: JobClass, first: QueuedJob) -> Iterator[Search]:
        barred = frozenset(e.factory_id for e in first.exclusions if e.until > self._now)
        for pool in self._fleet.pools():
            fit = self._fleet.fit(kind, pool)
            if isinstance(fit, Fit):
                engines = tuple(dict.fromkeys(choice.seats for choice in fit.engines))
                yield pool, engines, kind.required_factories, barred

    def _count(self, search: Search) -> int:
        cached = self._counted.get(search)
        if cached is None:
            engines = search[1]
            cached = sum(self._free(member, engines) for member in self._candidates(search))
            self._counted[search] = cached
        return cached

    def _free(self, member: Member, engines: Engines) -> int:
        factory_id = member.factory.id
        slots = self._fleet.free_seats(factory_id, None, self._now)
        if None in engines:
            return slots
        return min(
            slots, sum(self._fleet.free_seats(factory_id, name, self._now) for name in engines)
        )

    def _take(self, search: Search, wanted: int) -> int:
        if search in self._used_up:
            return 0
        given = 0
        for member in self._candidates(search):
            while given < wanted and self._give(member, search[1]):
                given += 1
            if given == wanted:
                return given
        self._used_up.add(search)
        return given

    def _give(self, member: Member, engines: Engines) -> bool:
        """Take one seat on a factory; return whether one was left."""
        factory_id = member.factory.id
        if factory_id not in self._slots:
            self._slots[factory_id] = self._fleet.free_seats(factory_id, None, self._now)
            for engine in member.factory.engines:
                free = self._fleet.free_seats(factory_id, engine, self._now)
                self._seats[factory_id, engine] = free
        if not self._slots[factory_id]:
            return False
        for name in engines:
            if name is not None:
                if not self._seats[factory_id, name] or not self.fleet_seats_left.get(name, 1):
                    continue
                self._seats[factory_id, name] -= 1
                if name in self.fleet_seats_left:
                    self.fleet_seats_left[name] -= 1
            self._slots[factory_id] -= 1
            self.busy_soon.add(factory_id)
            return True
        return False

    @staticmethod
    def _candidates(search: Search) -> Iterator[Member]:
        """Yield the online factories of the pool that have a free slot and are not excluded."""
        pool, _, only, barred = search
        members = [member for ranks in pool.open.values() for _, _, member in ranks]
        members += [pool.members[name] for name in sorted(pool.odd[Presence.FADING])]
        for member in members:
            name = member.factory.id
            if name not in barred and (not only or only == {name}):
                yield member
