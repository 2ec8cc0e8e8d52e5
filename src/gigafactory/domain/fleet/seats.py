"""The seats of the fleet that are taken by leases and offers."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.job.job import Job, Lease
from gigafactory.domain.manifest.engine_ref import base_engine

K = TypeVar("K")


class SeatHold(msgspec.Struct, frozen=True, kw_only=True):
    """The slot and engine seat that one lease or offer of a job takes on a factory."""

    factory_id: str
    engine: str | None
    epoch: int | None
    """The lease epoch; None for an offer."""
    begun: datetime | None = None
    holds: tuple[str, ...] = ()


class JobSeats(msgspec.Struct, frozen=True):
    """All seats that a job takes."""

    product_id: str
    at: datetime
    seats: tuple[SeatHold, ...]


_NOBODY = JobSeats("", datetime.min.replace(tzinfo=UTC), ())


class SeatMap:
    """The seats taken on each factory and in the fleet; an offer counts until it ends."""

    def __init__(self, fleet_seats: Mapping[str, int]) -> None:
        self.fleet_seats = dict(fleet_seats)
        self.held_keys: dict[str, str] = {}
        """The unique keys that are held, with the job that holds each."""
        self.exhausted: set[str] = set()
        """The engines without a free seat in the whole fleet."""
        self._full_below: dict[str, int] = {}
        """For each kind of seat, a number below which all are taken: the search starts there."""
        self._jobs: dict[str, JobSeats] = {}
        self._slots: Counter[str] = Counter()
        self._engines: Counter[tuple[str, str]] = Counter()
        self._fleet: Counter[str] = Counter()
        for engine in self.fleet_seats:
            self._weigh(engine)

    def put(self, job: Job) -> tuple[JobSeats | None, JobSeats | None]:
        """Update with this version of a job; return its seats before and after."""
        if job.lease is None and job.offer is None and not job.ending and job.id not in self._jobs:
            return None, None
        seats = tuple(_seat_holds(job))
        return self._seat(job.id, JobSeats(job.product_id, job.updated_at, seats))

    def reserve(
        self,
        job_id: str,
        factory_id: str,
        engine: str | None,
        holds: tuple[str, ...],
        *,
        now: datetime,
    ) -> tuple[JobSeats | None, JobSeats | None]:
        """Count seats as taken for a job about to be granted; return its seats before and after."""
        name = base_engine(engine) if engine is not None else None
        seat = SeatHold(factory_id=factory_id, engine=name, epoch=None, holds=holds)
        before = self._jobs.get(job_id, JobSeats("", now, ()))
        leases = tuple(seat_hold for seat_hold in before.seats if seat_hold.epoch is not None)
        return self._seat(job_id, JobSeats(before.product_id, now, (*leases, seat)))

    def restore(self, job_id: str, before: JobSeats | None) -> JobSeats | None:
        """Undo `reserve` by restoring the earlier seats; return the seats until now."""
        return self._seat(job_id, before if before is not None else _NOBODY)[0]

    def _seat(self, job_id: str, seats: JobSeats) -> tuple[JobSeats | None, JobSeats | None]:
        before = self._jobs.pop(job_id, None)
        after = seats if seats.seats else None
        if before is not None and after is not None and before.seats == after.seats:
            self._jobs[job_id] = before
            return before, before
        if before is not None:
            self._count(job_id, before, -1)
        if after is not None:
            self._jobs[job_id] = after
            self._count(job_id, after, 1)
        return before, after

    def forget(self, job_id: str) -> JobSeats | None:
        """Release and return all seats of a job."""
        before = self._jobs.pop(job_id, None)
        if before is not None:
            self._count(job_id, before, -1)
        return before

    def slots_taken(self, factory_id: str) -> int:
        """Return the number of slots taken on a factory, offers included."""
        return self._slots[factory_id]

    def seats_taken(self, factory_id: str, engine: str) -> int:
        """Return the number of seats of an engine taken on a factory, offers included."""
        return self._engines[factory_id, engine]

    def fleet_seats_free(self, engine: str) -> int | None:
        """Return the free fleet-wide seats of an engine; None without a limit."""
        limit = self.fleet_seats.get(engine)
        return None if limit is None else max(0, limit - self._fleet[engine])

    def free_keys(self, factory: Factory, engine: str | None) -> tuple[str, ...] | None:
        """Return a free slot, seat and fleet-wide seat for one run, as unique keys to take.

        None when full. This is an in-memory guess: the store decides when the keys are taken.
        """
        wanted = [(f"slot/{factory.id}", factory.slots)]
        if engine is not None:
            engine_seats = factory.engines.get(engine)
            wanted.append(
                (f"seat/{factory.id}/{engine}", engine_seats.seats if engine_seats else 0)
            )
            if engine in self.fleet_seats:
                wanted.append((f"fleet-seat/{engine}", self.fleet_seats[engine]))
        keys = []
        for kind, size in wanted:
            number = self._full_below.get(kind, 0)
            while (key := f"{kind}/{number}") in self.held_keys:
                number += 1
            self._full_below[kind] = number
            if number >= size:
                return None
            keys.append(key)
        return tuple(keys)

    def _count(self, job_id: str, seats: JobSeats, by: int) -> None:
        for seat in seats.seats:
            _bump(self._slots, seat.factory_id, by)
            if seat.engine is not None:
                _bump(self._engines, (seat.factory_id, seat.engine), by)
                _bump(self._fleet, seat.engine, by)
                self._weigh(seat.engine)
            for key in seat.holds:
                self._hold(key, job_id, by)

    def _hold(self, key: str, job_id: str, by: int) -> None:
        if by > 0:
            self.held_keys[key] = job_id
        # The key may belong to another job by now, if its version arrived first.
        elif self.held_keys.get(key) == job_id:
            del self.held_keys[key]
            kind, _, number = key.rpartition("/")
            if kind in self._full_below:
                self._full_below[kind] = min(self._full_below[kind], int(number))

    def _weigh(self, engine: str) -> None:
        if self.fleet_seats_free(engine) == 0:
            self.exhausted.add(engine)
        else:
            self.exhausted.discard(engine)


def _bump(counts: Counter[K], key: K, by: int) -> None:
    counts[key] += by
    if not counts[key]:
        del counts[key]


def _seat_holds(job: Job) -> Iterator[SeatHold]:
    if job.lease is not None:
        yield _leased(job.lease)
    for lease in job.ending:
        yield _leased(lease)
    if job.offer is not None:
        engine = job.offer.engine
        yield SeatHold(
            factory_id=job.offer.factory_id,
            engine=base_engine(engine) if engine is not None else None,
            epoch=None,
        )


def _leased(lease: Lease) -> SeatHold:
    return SeatHold(
        factory_id=lease.factory_id,
        engine=base_engine(lease.engine) if lease.engine is not None else None,
        epoch=lease.epoch,
        begun=lease.granted_at,
        holds=lease.holds,
    )
