"""How many factories of a shape are wanted: for what runs, what waits, and what may come."""

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
    """Machines that could be started: what each would offer, and how many there may be."""

    name: str
    factories: str = ""
    """How the names of its factories begin; empty for none that is known."""
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
    """Factories that stand by, beside those that have something to do."""
    backlog: int = 1
    """How many jobs may wait for each seat, as long as none of them is late."""

    @property
    def traits(self) -> FactoryTraits:
        """What the scheduler would see of such a factory."""
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
    """How a factory of a shape stands."""

    STARTING = "starting"
    """It has joined, and was never heard of."""
    IDLE = "idle"
    BUSY = "busy"
    """It runs something, or was offered something."""
    DRAINING = "draining"
    SILENT = "silent"
    """It is not heard of any more."""


class ShapeFactory(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One factory of a shape, as the coordinator knows it."""

    id: str
    state: FactoryState
    jobs: int
    """What it runs and was offered, also while it drains or is silent."""
    enrolled_at: datetime
    lacks: tuple[str, ...] = ()
    """What the shape promises, and this one does not advertise."""


class ScaleTarget(msgspec.Struct, frozen=True, kw_only=True):
    """How many factories of a shape are wanted, and why."""

    shape: Shape
    wanted: int
    needed: int
    """Those of its factories that have something to do, or will."""
    more: int
    """Those that what waits needs beside them."""
    waiting: int
    """The jobs that were counted for this shape, and for no other."""
    late: bool
    """Whether some of them wait longer than their product wants them to."""
    factories: tuple[ShapeFactory, ...]


def scale_targets(
    shapes: Sequence[Shape], seen: DemandSnapshot, fleet: FleetState
) -> list[ScaleTarget]:
    """Tell for each shape how many are wanted; a job counts for the first shape that can run it.

    Where a shape has reached its maximum, what is left counts for the next one.
    """
    sights = [_sights(shape, fleet) for shape in shapes]
    plots = [_Plot(shape, had, seen.busy_soon) for shape, had in zip(shapes, sights, strict=True)]
    left = dict(seen.fleet_seats_left)
    for demand in seen.demands:
        _place(demand, plots, left, fleet.classes)
    return [plot.outlook(had) for plot, had in zip(plots, sights, strict=True)]


def _place(
    demand: Demand,
    plots: Iterable["_Plot"],
    left: dict[str, int],
    classes: Mapping[str, EngineClass],
) -> None:
    jobs = demand.unserved
    # A new machine has a new name: whoever requires one by name waits for that one.
    if demand.job_class.required_factories:
        return
    for plot in plots:
        fit = match(demand.job_class, plot.traits, classes=classes) if jobs else None
        if isinstance(fit, Fit):
            engines = tuple(dict.fromkeys(choice.seats for choice in fit.engines))
            jobs -= plot.take(demand, jobs, engines, left)


def _sights(shape: Shape, fleet: FleetState) -> tuple[ShapeFactory, ...]:
    if not shape.factories:
        return ()
    mine = (one for one in fleet.members() if one.factory.id.startswith(shape.factories))
    promised = shape.traits.tokens
    return tuple(_sight(one, fleet.seat_map.slots_taken(one.factory.id), promised) for one in mine)


def _sight(member: Member, jobs: int, promised: frozenset[str]) -> ShapeFactory:
    factory, state = member.factory, _state(member, jobs)
    # Before its first word nobody knows what it has.
    lacks = () if state is FactoryState.STARTING else sorted(promised - member.pool.traits.tokens)
    return ShapeFactory(
        id=factory.id,
        state=state,
        jobs=jobs,
        enrolled_at=factory.enrolled_at,
        lacks=tuple(lacks),
    )


def _state(member: Member, jobs: int) -> FactoryState:
    if member.factory.draining:
        return FactoryState.DRAINING
    if not member.factory.instance_id:
        return FactoryState.STARTING
    if member.presence is Presence.AWAY:
        return FactoryState.SILENT
    return FactoryState.BUSY if jobs else FactoryState.IDLE


class _Plot:
    """The new factories of one shape, as they fill up."""

    def __init__(self, shape: Shape, had: Iterable[ShapeFactory], takers: frozenset[str]) -> None:
        self.shape = shape
        self.traits = shape.traits
        live = [one for one in had if one.state is not FactoryState.DRAINING]
        self._needed = sum(one.jobs > 0 or one.id in takers for one in live)
        self._room = max(0, shape.maximum - self._needed)
        self._built = 0
        self._slots = 0
        self._seats: Counter[str] = Counter()
        self._jobs = 0
        self._late = False

    def take(self, demand: Demand, jobs: int, engines: Engines, left: dict[str, int]) -> int:
        """Have so many jobs of a class here, as far as the maximum allows; tells how many."""
        each = 1 if demand.is_late else self.shape.backlog
        patient = min(jobs, (each - 1) * (demand.running + demand.served))
        seats = -(-(jobs - patient) // each)
        taken = min(jobs, patient + each * self._seat(seats, engines, left))
        self._jobs += taken
        self._late = self._late or (demand.is_late and taken > 0)
        return taken

    def _seat(self, wanted: int, engines: Engines, left: dict[str, int]) -> int:
        """Find room for so many runs in as few new factories as can be; tells for how many."""
        given = todo = min(wanted, self._free(self._room, engines, left))
        levels = range(self._built, self._room + 1)
        at = bisect_left(levels, given, key=lambda level: self._free(level, engines, left))
        self._built = levels[at]
        for name in engines:
            if name is not None:
                here = min(todo, self._free_seats(self._built, name, left))
                self._seats[name] += here
                todo -= here
                if name in left:
                    left[name] -= here
        self._slots += given
        return given

    def _free(self, level: int, engines: Engines, left: Mapping[str, int]) -> int:
        slots = level * self.shape.slots - self._slots
        if None in engines:
            return slots
        seats = (self._free_seats(level, name, left) for name in engines if name is not None)
        return min(slots, sum(seats))

    def _free_seats(self, level: int, engine: str, left: Mapping[str, int]) -> int:
        here = level * self.shape.engines[engine] - self._seats[engine]
        return min(here, left.get(engine, here))

    def outlook(self, had: tuple[ShapeFactory, ...]) -> ScaleTarget:
        shape = self.shape
        total = self._needed + self._built + shape.warm
        return ScaleTarget(
            shape=shape,
            wanted=min(shape.maximum, max(shape.minimum, total)),
            needed=self._needed,
            more=self._built,
            waiting=self._jobs,
            late=self._late,
            factories=had,
        )
