"""The factories of one shape, kept so that the best free one is found without looking at all."""

from bisect import bisect_left, insort
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from gigafactory.domain.fleet.factory import HEALTH_FLOOR, OFFLINE_AFTER, Factory, Vitals, health
from gigafactory.domain.fleet.matching import Fit, Rejection, Traits
from gigafactory.domain.queue.queued_job import JobClass

FADES_AFTER = OFFLINE_AFTER / 2
"""The silence after which health begins to fall by itself."""
FITS_MAX = 20_000


class Presence(Enum):
    """How a factory counts just now."""

    FRESH = 0
    FADING = 1
    SICK = 2
    AWAY = 3


class Room(NamedTuple):
    """How full a factory is: equal rooms are equally good."""

    load: float
    """The share of its slots that are taken; 1 and more when none is free."""
    free: tuple[bool, ...]
    """Whether each engine of the shape has a free seat and does not rest."""


FULL = Room(1.0, ())


class Member:
    """One factory of the fleet, with all that is known of it."""

    __slots__ = ("check_at", "factory", "pool", "presence", "room", "vigour", "vitals")

    def __init__(self, factory: Factory, pool: "Pool") -> None:
        self.factory = factory
        self.pool = pool
        self.vitals: Vitals | None = None
        self.vigour = 0.0
        """Its health while it is heard of."""
        self.presence = Presence.AWAY
        self.room = FULL
        self.check_at: datetime | None = None
        """When time alone may change how it counts."""

    def health(self, now: datetime) -> float:
        """Give its health, in steps of a hundredth; 0 when it was never heard of."""
        return round(health(self.vitals, now), 2) if self.vitals is not None else 0.0

    def presence_at(self, now: datetime) -> Presence:
        """Tell how it counts at `now`."""
        if self.vitals is None or now - self.vitals.last_seen >= OFFLINE_AFTER:
            return Presence.AWAY
        if self.vigour < HEALTH_FLOOR or now >= self._sickens_at(self.vitals.last_seen):
            return Presence.SICK
        fading = now - self.vitals.last_seen >= FADES_AFTER
        return Presence.FADING if fading else Presence.FRESH

    def changes_at(self, now: datetime) -> datetime | None:
        """Give the next moment at which time alone changes its presence or readies an engine."""
        ends = [e.cooling_until for e in self.factory.engines.values() if e.cooling_until]
        if self.vitals is not None:
            seen = self.vitals.last_seen
            ends += [seen + FADES_AFTER, seen + OFFLINE_AFTER]
            if self.vigour >= HEALTH_FLOOR:
                ends.append(self._sickens_at(seen))
        return min((end for end in ends if end > now), default=None)

    def _sickens_at(self, seen: datetime) -> datetime:
        """Give the moment at which silence alone takes what is left of its health."""
        return seen + OFFLINE_AFTER * (1.0 - HEALTH_FLOOR / (2.0 * self.vigour))


# Ids are unique, so that members themselves are never compared.
Rank = tuple[float, str, Member]


class Pool:
    """All factories of one shape, by how they count and how full they are."""

    __slots__ = ("_fits", "full", "members", "odd", "open", "traits")

    def __init__(self, traits: Traits) -> None:
        self.traits = traits
        self.members: dict[str, Member] = {}
        self.open: dict[Room, list[Rank]] = {}
        """Fresh ones with a free slot, the healthiest of each kind of room first."""
        self.full: set[str] = set()
        self.odd: dict[Presence, set[str]] = {
            Presence.FADING: set(),
            Presence.SICK: set(),
            Presence.AWAY: set(),
        }
        self._fits: dict[JobClass, Fit | Rejection] = {}

    @property
    def present(self) -> int:
        """How many of them are heard of and well enough to work."""
        return len(self.members) - len(self.odd[Presence.SICK]) - len(self.odd[Presence.AWAY])

    def fit(self, job_class: JobClass) -> Fit | Rejection | None:
        """Give how a class fits, if that was worked out before."""
        return self._fits.get(job_class)

    def remember(self, job_class: JobClass, fit: Fit | Rejection) -> None:
        """Keep how a class fits; all is forgotten when it grows beyond bounds."""
        if len(self._fits) >= FITS_MAX:
            self._fits.clear()
        self._fits[job_class] = fit

    def forget_fits(self) -> None:
        """Work everything out anew: the fleet has other shapes now."""
        self._fits.clear()

    def add(self, member: Member) -> None:
        """Take a factory in, by how it counts and its room."""
        factory_id, room = member.factory.id, member.room
        self.members[factory_id] = member
        if member.presence is not Presence.FRESH:
            self.odd[member.presence].add(factory_id)
        elif room.load >= 1.0:
            self.full.add(factory_id)
        else:
            insort(self.open.setdefault(room, []), (-member.vigour, factory_id, member))

    def discard(self, member: Member) -> None:
        """Let a factory go from where it was added."""
        factory_id, room = member.factory.id, member.room
        del self.members[factory_id]
        if member.presence is not Presence.FRESH:
            self.odd[member.presence].remove(factory_id)
        elif room.load >= 1.0:
            self.full.remove(factory_id)
        else:
            ranks = self.open[room]
            del ranks[bisect_left(ranks, (-member.vigour, factory_id, member))]
            if not ranks:
                del self.open[room]
