"""Pools: factories with equal traits, sorted so that the best free one is found quickly."""

from bisect import bisect_left, insort
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from gigafactory.domain.fleet.factory import (
    HEALTH_FLOOR,
    OFFLINE_AFTER,
    Factory,
    Vitals,
    health_score,
)
from gigafactory.domain.fleet.matching import FactoryTraits, Fit, Rejection
from gigafactory.domain.queue.queued_job import JobClass

FADES_AFTER = OFFLINE_AFTER / 2
"""Time without heartbeat after which health starts to fall."""
FITS_MAX = 20_000


class Presence(Enum):
    """How recent the heartbeat of a factory is, and whether it is healthy."""

    FRESH = 0
    FADING = 1
    SICK = 2
    AWAY = 3


class Occupancy(NamedTuple):
    """How full a factory is; factories with equal occupancy are equally good."""

    load: float
    """The fraction of its slots that are taken; 1 or more when none is free."""
    free: tuple[bool, ...]
    """For each engine of the traits, whether it has a free seat and is not cooling down."""


FULL = Occupancy(1.0, ())


class Member:
    """One factory of a pool, with its vitals and derived state."""

    __slots__ = ("check_at", "factory", "fresh_health", "occupancy", "pool", "presence", "vitals")

    def __init__(self, factory: Factory, pool: "Pool") -> None:
        self.factory = factory
        self.pool = pool
        self.vitals: Vitals | None = None
        self.fresh_health = 0.0
        """Its health at its last heartbeat."""
        self.presence = Presence.AWAY
        self.occupancy = FULL
        self.check_at: datetime | None = None
        """When its presence or an engine changes next without any event."""

    def health(self, now: datetime) -> float:
        """Return its health, rounded to a hundredth; 0 without any heartbeat."""
        return round(health_score(self.vitals, now), 2) if self.vitals is not None else 0.0

    def presence_at(self, now: datetime) -> Presence:
        """Return its presence at `now`."""
        if self.vitals is None or now - self.vitals.last_seen >= OFFLINE_AFTER:
            return Presence.AWAY
        if self.fresh_health < HEALTH_FLOOR or now >= self._becomes_unhealthy_at(
            self.vitals.last_seen
        ):
            return Presence.SICK
        fading = now - self.vitals.last_seen >= FADES_AFTER
        return Presence.FADING if fading else Presence.FRESH

    def next_change(self, now: datetime) -> datetime | None:
        """Return when its presence changes or a cool-down ends next; None for never."""
        ends = [e.cooling_until for e in self.factory.engines.values() if e.cooling_until]
        if self.vitals is not None:
            seen = self.vitals.last_seen
            ends += [seen + FADES_AFTER, seen + OFFLINE_AFTER]
            if self.fresh_health >= HEALTH_FLOOR:
                ends.append(self._becomes_unhealthy_at(seen))
        return min((end for end in ends if end > now), default=None)

    def _becomes_unhealthy_at(self, seen: datetime) -> datetime:
        """Return when silence alone lowers its health below the floor."""
        return seen + OFFLINE_AFTER * (1.0 - HEALTH_FLOOR / (2.0 * self.fresh_health))


# Ids are unique, so members themselves are never compared.
Rank = tuple[float, str, Member]


class Pool:
    """All factories with equal traits, by presence and occupancy."""

    __slots__ = ("_fits", "full", "members", "odd", "open", "traits")

    def __init__(self, traits: FactoryTraits) -> None:
        self.traits = traits
        self.members: dict[str, Member] = {}
        self.open: dict[Occupancy, list[Rank]] = {}
        """Fresh factories with a free slot by occupancy, the healthiest first."""
        self.full: set[str] = set()
        self.odd: dict[Presence, set[str]] = {
            Presence.FADING: set(),
            Presence.SICK: set(),
            Presence.AWAY: set(),
        }
        self._fits: dict[JobClass, Fit | Rejection] = {}

    @property
    def present_count(self) -> int:
        """The number of factories that are online and healthy."""
        return len(self.members) - len(self.odd[Presence.SICK]) - len(self.odd[Presence.AWAY])

    def cached_fit(self, job_class: JobClass) -> Fit | Rejection | None:
        """Return the cached fit of a class; None when not cached."""
        return self._fits.get(job_class)

    def cache_fit(self, job_class: JobClass, fit: Fit | Rejection) -> None:
        """Cache the fit of a class; the cache is emptied when it is full."""
        if len(self._fits) >= FITS_MAX:
            self._fits.clear()
        self._fits[job_class] = fit

    def forget_fits(self) -> None:
        """Empty the cache, because the traits in the fleet have changed."""
        self._fits.clear()

    def add(self, member: Member) -> None:
        """Add a factory under its current presence and occupancy."""
        factory_id, room = member.factory.id, member.occupancy
        self.members[factory_id] = member
        if member.presence is not Presence.FRESH:
            self.odd[member.presence].add(factory_id)
        elif room.load >= 1.0:
            self.full.add(factory_id)
        else:
            insort(self.open.setdefault(room, []), (-member.fresh_health, factory_id, member))

    def discard(self, member: Member) -> None:
        """Remove a factory; its presence and occupancy must be unchanged since `add`."""
        factory_id, room = member.factory.id, member.occupancy
        del self.members[factory_id]
        if member.presence is not Presence.FRESH:
            self.odd[member.presence].remove(factory_id)
        elif room.load >= 1.0:
            self.full.remove(factory_id)
        else:
            ranks = self.open[room]
            del ranks[bisect_left(ranks, (-member.fresh_health, factory_id, member))]
            if not ranks:
                del self.open[room]
