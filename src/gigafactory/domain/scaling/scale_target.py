"""How many factories of each shape are wanted, for running and waiting jobs and as standby."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from gigafactory.domain.fleet.fleet_state import FleetState
from gigafactory.domain.fleet.matching import FactoryTraits, Fit, match
from gigafactory.domain.fleet.pool import Member, Presence
from gigafactory.domain.manifest.manifest import EngineClass
from gigafactory.domain.scaling.demand import Demand, DemandSnapshot
from gigafactory.domain.scaling.free_seats import Engines


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of machine that the autoscaler can start: its capabilities and its limits."""

    name: str
    factories: str = ""
    """The name prefix of its factories; empty when it has none."""
    capabilities: tuple[str, ...] = ()
    engines: Mapping[str, int] = {}
    """Seats by engine."""
    slots: int = 1
    products: tuple[str, ...] = ("*",)
    repos: tuple[str, ...] = ()
    may_clone: bool = True
    minimum: int = 0
    maximum: int = 1
    warm: int = 0
    """Number of standby factories in addition to the busy ones."""
    backlog: int = 1
    """How many jobs may wait per seat, as long as none of them is late."""

    @property
    def traits(self) -> FactoryTraits:
        """The traits that a factory of this shape would have."""
        engines = tuple(sorted(name for name, seats in self.engines.items() if seats > 0))
        tokens = {*self.capabilities, *(f"engine:{name}" for name in engines)}
        return FactoryTraits(
            tokens=frozenset(tokens | {f"repo:{name}" for name in self.repos}),
            engines=engines,
            products=tuple(sorted(self.products)),
            repos=frozenset(self.repos),
            may_clone=self.may_clone,
            cost_class=1,
            draining=False,
            streaming=True,
        )


class FactoryState(StrEnum):
    """The state of a factory of a shape."""

    STARTING = "starting"
    """It has enrolled, but sent no heartbeat yet."""
    IDLE = "idle"
    BUSY = "busy"
    """It runs a job or has an offer."""
    DRAINING = "draining"
    SILENT = "silent"
    """It no longer sends heartbeats."""


class ShapeFactory(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One factory of a shape, as the coordinator sees it."""

    id: str
    state: FactoryState
    jobs: int
    """Its running and offered jobs, also while it drains or is silent."""
    enrolled_at: datetime
    lacks: tuple[str, ...] = ()
    """Tokens of the shape that this factory does not advertise."""


class ScaleTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted number of factories of a shape, and its parts."""

    shape: Shape
    wanted: int
    needed: int
    """Existing factories that have a job or will get one."""
    more: int
    """Additional factories needed by the waiting jobs."""
    waiting: int
    """The waiting jobs counted for this shape and no other."""
    late: bool
    """Whether some of them wait longer than their target wait."""
    factories: tuple[ShapeFactory, ...]


def scale_targets(
    shapes: Sequence[Shape], snapshot: DemandSnapshot, fleet: FleetState
) -> list[ScaleTarget]:
    """Return the target of each shape; a job counts for the first shape that can run it.

    When a shape is at its maximum, the remaining jobs count for the next one.
    """
    factories = [_shape_factories(shape, fleet) for shape in shapes]
    fillings = [
        _ShapeFilling(shape, existing, snapshot.busy_soon)
        for shape, existing in zip(shapes, factories, strict=True)
    ]
    left = dict(snapshot.fleet_seats_left)
    for demand in snapshot.demands:
        _assign(demand, fillings, left, fleet.classes)
    return [
        filling.to_target(existing) for filling, existing in zip(fillings, factories, strict=True)
    ]


def _assign(
    demand: Demand,
    fillings: Iterable["_ShapeFilling"],
    left: dict[str, int],
    classes: Mapping[str, EngineClass],
) -> None:
    jobs = demand.unserved
    # A new machine has a new name, so it cannot help a job that requires a factory by name.
    if demand.job_class.required_factories:
        return
    for filling in fillings:
        fit = match(demand.job_class, filling.traits, classes=classes) if jobs else None
        if isinstance(fit, Fit):
            engines = tuple(dict.fromkeys(choice.seats for choice in fit.engines))
            jobs -= filling.take(demand, jobs, engines, left)


def _shape_factories(shape: Shape, fleet: FleetState) -> tuple[ShapeFactory, ...]:
    if not shape.factories:
        return ()
    members = (
        member for member in fleet.members() if member.factory.id.startswith(shape.factories)
    )
    promised = shape.traits.tokens
    return tuple(
        _shape_factory(member, fleet.seat_map.slots_taken(member.factory.id), promised)
        for member in members
    )


def _shape_factory(member: Member, jobs: int, promised: frozenset[str]) -> ShapeFactory:
    factory, state = member.factory, _state(member, jobs)
    # Before its first heartbeat its tokens are unknown.
    missing = () if state is FactoryState.STARTING else sorted(promised - member.pool.traits.tokens)
    return ShapeFactory(
        id=factory.id,
        state=state,
        jobs=jobs,
        enrolled_at=factory.enrolled_at,
        lacks=tuple(missing),
    )


def _state(member: Member, jobs: int) -> FactoryState:
    if member.factory.draining:
        return FactoryState.DRAINING
    if not member.factory.instance_id:
        return FactoryState.STARTING
    if member.presence is Presence.AWAY:
        return FactoryState.SILENT
    return FactoryState.BUSY if jobs else FactoryState.IDLE


class _ShapeFilling:
    """The new factories of one shape, while jobs are assigned to them."""

    def __init__(
        self, shape: Shape, existing: Iterable[ShapeFactory], takers: frozenset[str]
    ) -> None:
        self.shape = shape
        self.traits = shape.traits
        live = [member for member in existing if member.state is not FactoryState.DRAINING]
        self._needed = sum(member.jobs > 0 or member.id in takers for member in live)
        self._room = max(0, shape.maximum - self._needed)
        self._built = 0
        self._slots = 0
        self._seats: Counter[str] = Counter()
        self._jobs = 0
        self._late = False

    def take(self, demand: Demand, jobs: int, engines: Engines, left: dict[str, int]) -> int:
        """Assign jobs of a class to this shape up to its maximum; return how many."""
        each = 1 if demand.is_late else self.shape.backlog
        can_wait = min(jobs, (each - 1) * (demand.running + demand.served))
        seats = -(-(jobs - can_wait) // each)
        taken = min(jobs, can_wait + each * self._reserve_seats(seats, engines, left))
        self._jobs += taken
        self._late = self._late or (demand.is_late and taken > 0)
        return taken

    def _reserve_seats(self, wanted: int, engines: Engines, left: dict[str, int]) -> int:
        """Reserve seats for runs in as few new factories as possible; return how many fit."""
        given = todo = min(wanted, self._free(self._room, engines, left))
        levels = range(self._built, self._room + 1)
        at = bisect_left(levels, given, key=lambda level: self._free(level, engines, left))
        self._built = levels[at]
        for name in engines:
            if name is not None:
                taken = min(todo, self._free_seats(self._built, name, left))
                self._seats[name] += taken
                todo -= taken
                if name in left:
                    left[name] -= taken
        self._slots += given
        return given

    def _free(self, level: int, engines: Engines, left: Mapping[str, int]) -> int:
        slots = level * self.shape.slots - self._slots
        if None in engines:
            return slots
        seats = (self._free_seats(level, name, left) for name in engines if name is not None)
        return min(slots, sum(seats))

    def _free_seats(self, level: int, engine: str, left: Mapping[str, int]) -> int:
        free = level * self.shape.engines[engine] - self._seats[engine]
        return min(free, left.get(engine, free))

    def to_target(self, existing: tuple[ShapeFactory, ...]) -> ScaleTarget:
        shape = self.shape
        total = self._needed + self._built + shape.warm
        return ScaleTarget(
            shape=shape,
            wanted=min(shape.maximum, max(shape.minimum, total)),
            needed=self._needed,
            more=self._built,
            waiting=self._jobs,
            late=self._late,
            factories=existing,
        )
