"""Which seats of the fleet are taken, by which leases and offers."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from gigafactory.domain.fleet.factory import Factory
from gigafactory.domain.job.job import Job, Lease
from gigafactory.domain.manifest.engine_ref import program

K = TypeVar("K")


class Sitting(msgspec.Struct, frozen=True, kw_only=True):
    """One lease or offer of a job: a slot of a factory, and a seat of an engine there."""

    factory_id: str
    engine: str | None
    epoch: int | None
    """None for an offer, which has no lease yet."""
    begun: datetime | None = None
    holds: tuple[str, ...] = ()


class Seated(msgspec.Struct, frozen=True):
    """A job that takes up room, and how."""

    product_id: str
    at: datetime
    sittings: tuple[Sitting, ...]


_NOBODY = Seated("", datetime.min.replace(tzinfo=UTC), ())


class Seating:
    """The seats taken on each factory and in the fleet; an offer counts until it is withdrawn."""

    def __init__(self, fleet_seats: Mapping[str, int]) -> None:
        self.fleet_seats = dict(fleet_seats)
        self.taken: dict[str, str] = {}
        """The unique keys that are held, and by which job."""
        self.exhausted: set[str] = set()
        """The engines that have no seat left in the whole fleet."""
        self._full_below: dict[str, int] = {}
        """For each kind of seat a number below which all are taken: nobody looks there."""
        self._jobs: dict[str, Seated] = {}
        self._slots: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        self._engines: Counter[tuple[str, str]] = Counter()
        self._fleet: Counter[str] = Counter()
        for engine in self.fleet_seats:
            self._weigh(engine)

    def put(self, job: Job) -> tuple[Seated | None, Seated | None]:
        """Know this version of a job; gives what it took up before, and what it takes up now."""
        if job.lease is None and job.offer is None and not job.ending and job.id not in self._jobs:
            return None, None
        sittings = tuple(_sittings(job))
        return self._seat(job.id, Seated(job.product_id, job.updated_at, sittings))

    def reserve(
        self,
        job_id: str,
        factory_id: str,
        engine: str | None,
        holds: tuple[str, ...],
        *,
        now: datetime,
    ) -> tuple[Seated | None, Seated | None]:
        """Count seats as taken for a job that is about to have them; as `put`, with its answer."""
        name = program(engine) if engine is not None else None
        sitting = Sitting(factory_id=factory_id, engine=name, epoch=None, holds=holds)
        before = self._jobs.get(job_id, Seated("", now, ()))
        leases = tuple(known for known in before.sittings if known.epoch is not None)
        return self._seat(job_id, Seated(before.product_id, now, (*leases, sitting)))

    def put_back(self, job_id: str, before: Seated | None) -> Seated | None:
        """Seat a job as it was before `reserve`; gives what it took up until now."""
        return self._seat(job_id, before if before is not None else _NOBODY)[0]

    def _seat(self, job_id: str, seated: Seated) -> tuple[Seated | None, Seated | None]:
        before = self._jobs.pop(job_id, None)
        after = seated if seated.sittings else None
        if before is not None and after is not None and before.sittings == after.sittings:
            self._jobs[job_id] = before
            return before, before
        if before is not None:
            self._count(job_id, before, -1)
        if after is not None:
            self._jobs[job_id] = after
            self._count(job_id, after, 1)
        return before, after

    def forget(self, job_id: str) -> Seated | None:
        """Let go of all that a job takes up; gives what that was."""
        before = self._jobs.pop(job_id, None)
        if before is not None:
            self._count(job_id, before, -1)
        return before

    def slots(self, factory_id: str) -> int:
        """Count the slots that are taken on a factory, offers included."""
        return self._slots[factory_id]

    def running(self, factory_id: str) -> int:
        """Count the leases of a factory, those that are ending included."""
        return self._running[factory_id]

    def seats(self, factory_id: str, engine: str) -> int:
        """Count the seats of an engine that are taken on a factory, offers included."""
        return self._engines[factory_id, engine]

    def fleet_free(self, engine: str) -> int | None:
        """Count the seats of an engine that are left in the fleet; None where there is no limit."""
        limit = self.fleet_seats.get(engine)
        return None if limit is None else max(0, limit - self._fleet[engine])

    def free_keys(self, factory: Factory, engine: str | None) -> tuple[str, ...] | None:
        """Name a free slot, seat and fleet-wide seat for one run, as unique keys to take.

        None without room. It is what is known here; the store's verdict is what decides.
        """
        wanted = [(f"slot/{factory.id}", factory.slots)]
        if engine is not None:
            here = factory.engines.get(engine)
            wanted.append((f"seat/{factory.id}/{engine}", here.seats if here else 0))
            if engine in self.fleet_seats:
                wanted.append((f"fleet-seat/{engine}", self.fleet_seats[engine]))
        keys = []
        for kind, size in wanted:
            number = self._full_below.get(kind, 0)
            while (key := f"{kind}/{number}") in self.taken:
                number += 1
            self._full_below[kind] = number
            if number >= size:
                return None
            keys.append(key)
        return tuple(keys)

    def _count(self, job_id: str, seated: Seated, by: int) -> None:
        for sitting in seated.sittings:
            _bump(self._slots, sitting.factory_id, by)
            if sitting.epoch is not None:
                _bump(self._running, sitting.factory_id, by)
            if sitting.engine is not None:
                _bump(self._engines, (sitting.factory_id, sitting.engine), by)
                _bump(self._fleet, sitting.engine, by)
                self._weigh(sitting.engine)
            for key in sitting.holds:
                self._hold(key, job_id, by)

    def _hold(self, key: str, job_id: str, by: int) -> None:
        if by > 0:
            self.taken[key] = job_id
        # By now the key may be another job's, whose newer version was heard of first.
        elif self.taken.get(key) == job_id:
            del self.taken[key]
            kind, _, number = key.rpartition("/")
            if kind in self._full_below:
                self._full_below[kind] = min(self._full_below[kind], int(number))

    def _weigh(self, engine: str) -> None:
        if self.fleet_free(engine) == 0:
            self.exhausted.add(engine)
        else:
            self.exhausted.discard(engine)


def _bump(counts: Counter[K], key: K, by: int) -> None:
    counts[key] += by
    if not counts[key]:
        del counts[key]


def _sittings(job: Job) -> Iterator[Sitting]:
    if job.lease is not None:
        yield _leased(job.lease)
    for lease in job.ending:
        yield _leased(lease)
    if job.offer is not None:
        engine = job.offer.engine
        yield Sitting(
            factory_id=job.offer.factory_id,
            engine=program(engine) if engine is not None else None,
            epoch=None,
        )


def _leased(lease: Lease) -> Sitting:
    return Sitting(
        factory_id=lease.factory_id,
        engine=program(lease.engine) if lease.engine is not None else None,
        epoch=lease.epoch,
        begun=lease.granted_at,
        holds=lease.holds,
    )
