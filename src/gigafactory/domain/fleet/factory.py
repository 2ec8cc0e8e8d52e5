"""A factory as the coordinator sees it: advertised capabilities, engine seats, health."""

from datetime import datetime, timedelta
from typing import ClassVar

import msgspec

from gigafactory.domain.errors import TwinFactory

OFFLINE_AFTER = timedelta(seconds=90)
TWIN_SILENCE = timedelta(seconds=45)
"""A process that was silent for so long is taken for dead by another with the same identity."""
EARLIER_INSTANCES_MAX = 8
HEALTH_FLOOR = 0.3
COOL_DOWN_MIN = timedelta(seconds=60)
COOL_DOWN_MAX = timedelta(hours=1)


class EngineSeats(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One engine on one factory: its seats and its availability."""

    version: str | None = None
    seats: int = 1
    cooling_until: datetime | None = None
    unavailable: str | None = None
    """Why the engine cannot be used there; cleared when it is detected again."""
    strikes: int = 0
    """Consecutive rate limits without a reset time; each doubles the cool-down."""

    def is_ready(self, now: datetime) -> bool:
        """Return whether the engine is available and not cooling down."""
        return self.unavailable is None and (
            self.cooling_until is None or self.cooling_until <= now
        )


class Pressure(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Resource use of the machine, each from 0 to 1; None when unknown."""

    load: float | None = None
    cpu: float | None = None
    memory: float | None = None
    disk: float | None = None


class Factory(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A machine of the fleet, as stored; the frequently changing `Vitals` are not part of it."""

    kind: ClassVar[str] = "factory"
    expires_at: ClassVar[None] = None
    product_id: ClassVar[str] = "*"

    id: str
    token_id: str
    products: tuple[str, ...] = ("*",)
    """The products whose jobs it may run; `*` for all."""
    capabilities_allowed: tuple[str, ...] | None = None
    """The advertised capabilities that count (the scope of its token); None for all."""
    instance_id: str = ""
    place: str | None = None
    """The host and data folder of the instance; None if it did not tell."""
    earlier_instances: tuple[str, ...] = ()
    """Instances that were replaced, newest first; a message of theirs is late, or of a twin."""
    os: str | None = None
    labels: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    engines: dict[str, EngineSeats] = {}
    slots: int = 0
    repos: tuple[str, ...] = ()
    may_clone: bool = True
    cost_class: int = 1
    """From 0 (free seats) to 3 (most expensive)."""
    sandbox: str | None = None
    version: str | None = None
    draining: bool = False
    streaming: str | None = None
    """The coordinator that serves its offer stream; None when it polls."""
    enrolled_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key: the id."""
        return self.id

    def admits(self, product_id: str) -> bool:
        """Return whether the scope of its token covers this product."""
        return "*" in self.products or product_id in self.products

    @property
    def tokens(self) -> frozenset[str]:
        """All capability tokens: advertised ones within scope, engines, repos, its own id."""
        advertised = set(self.capabilities)
        if self.capabilities_allowed is not None:
            advertised &= set(self.capabilities_allowed)
        advertised |= {f"engine:{name}" for name in self.engines}
        advertised |= {f"repo:{name}" for name in self.repos}
        advertised.add(f"factory:{self.id}")
        return frozenset(advertised)


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """The frequently changing state of a factory, kept in memory only."""

    last_seen: datetime
    pressure: Pressure = Pressure()
    faults: float = 0.0
    """The recent fraction of runs that failed through the factory's own fault, 0 to 1."""


def is_online(vitals: Vitals | None, now: datetime) -> bool:
    """Return whether the last heartbeat is recent enough to give the factory work."""
    return vitals is not None and now - vitals.last_seen < OFFLINE_AFTER


def health_score(vitals: Vitals, now: datetime) -> float:
    """Return the health from 0 to 1: recent heartbeats, few own faults, free resources."""
    silence = max((now - vitals.last_seen) / OFFLINE_AFTER, 0.0)
    fresh = 1.0 if silence <= 0.5 else max(0.0, 2.0 * (1.0 - silence))  # noqa: PLR2004 - half of the threshold
    pressure_share = max(
        (p for p in (vitals.pressure.disk, vitals.pressure.memory) if p is not None), default=0.0
    )
    busy = max(
        (p for p in (vitals.pressure.cpu, vitals.pressure.load) if p is not None), default=0.0
    )
    room = 1.0 - max(0.0, min(1.0, (pressure_share - 0.9) * 10.0))
    load_factor = 1.0 - 0.2 * max(0.0, min(1.0, busy))
    return fresh * room * load_factor * (1.0 - max(0.0, min(1.0, vitals.faults)))


def start_cool_down(
    factory: Factory, engine: str, until: datetime | None, *, now: datetime
) -> Factory:
    """Return the factory with an engine cooling down until its reset, or with a back-off."""
    seats = factory.engines.get(engine, EngineSeats())
    rested_well = seats.cooling_until is not None and now - seats.cooling_until > COOL_DOWN_MAX
    strikes = 0 if rested_well else seats.strikes
    growing = min(COOL_DOWN_MIN * (1 << min(strikes, 8)), COOL_DOWN_MAX)
    rested = msgspec.structs.replace(
        seats, cooling_until=until or now + growing, strikes=0 if until else strikes + 1
    )
    return _with_engine(factory, engine, rested)


def disable_engine(factory: Factory, engine: str, reason: str) -> Factory:
    """Return the factory with an engine marked unavailable until it is detected again."""
    seats = factory.engines.get(engine, EngineSeats())
    return _with_engine(factory, engine, msgspec.structs.replace(seats, unavailable=reason))


def _with_engine(factory: Factory, engine: str, seats: EngineSeats) -> Factory:
    return msgspec.structs.replace(
        factory, engines={**factory.engines, engine: seats}, rev=factory.rev + 1
    )


def require_only_instance(
    stored: Factory,
    instance_id: str,
    place: str | None,
    *,
    vitals: Vitals | None,
    now: datetime,
    copied: bool = False,
) -> None:
    """Check that a message comes from the factory's only process, or from its successor.

    A process in the same data folder is the successor at once: a lock keeps two from running there.
    Not if the whole machine was `copied`: its copies have the same name and folders.
    Raises TwinFactory.
    """
    if instance_id == stored.instance_id or not stored.instance_id:
        return
    silence = now - vitals.last_seen if vitals is not None else TWIN_SILENCE
    elsewhere = None not in {place, stored.place} and (place != stored.place or copied)
    if instance_id in stored.earlier_instances or (elsewhere and silence < TWIN_SILENCE):
        raise TwinFactory(
            f"factory {stored.id} is already running at {stored.place or 'another place'};"
            f" the process at {place or 'an unnamed place'} has the same identity."
            " Is its data folder a copy? Enroll it under its own name with `aq factory enroll`."
            " Has the factory moved? Stop the other process, and start this one a minute later"
        )


def merge_heartbeat(stored: Factory, reported: Factory) -> Factory:
    """Return the factory after a heartbeat: the reported state plus the coordinator's own fields.

    A cool-down survives a restart of the factory. An unavailable engine is tried again after a
    new detection: by a new instance, or with another version.
    """
    engines = dict(reported.engines)
    for name, seats in reported.engines.items():
        if (before := stored.engines.get(name)) is None:
            continue
        same = (reported.instance_id, seats.version) == (stored.instance_id, before.version)
        engines[name] = msgspec.structs.replace(
            seats,
            cooling_until=seats.cooling_until or before.cooling_until,
            unavailable=seats.unavailable or (before.unavailable if same else None),
            strikes=before.strikes,
        )
    fresh = msgspec.structs.replace(
        reported,
        token_id=stored.token_id,
        products=stored.products,
        capabilities_allowed=stored.capabilities_allowed,
        draining=stored.draining,
        streaming=stored.streaming,
        enrolled_at=stored.enrolled_at,
        os=reported.os or stored.os,
        earlier_instances=_earlier_instances(stored, reported),
        engines=engines,
        rev=stored.rev,
    )
    return fresh if fresh == stored else msgspec.structs.replace(fresh, rev=stored.rev + 1)


def _earlier_instances(stored: Factory, reported: Factory) -> tuple[str, ...]:
    if not stored.instance_id or reported.instance_id == stored.instance_id:
        return stored.earlier_instances
    return (stored.instance_id, *stored.earlier_instances)[:EARLIER_INSTANCES_MAX]
