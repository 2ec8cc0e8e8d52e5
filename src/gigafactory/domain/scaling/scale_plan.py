"""What an autoscaler does about one shape: start, drain, end; never anything that has work."""

import itertools
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from gigafactory.domain.scaling.scale_target import FactoryState, ShapeFactory

RETRY_MIN = timedelta(seconds=2)
RETRY_MAX = timedelta(minutes=5)
ENDS_WITHIN = timedelta(seconds=30)
"""How long a factory without work may take to end by itself, once it drains."""


class MachineState(StrEnum):
    """How a machine of a shape counts for the autoscaler."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    ENDING = "ending"
    """It takes nothing new, and ends by itself when its work is done."""
    DONE = "done"
    """It has no work and did not end by itself, or has left the fleet: it can go."""
    STUCK = "stuck"
    """It was started, and never came to work in time."""
    LOST = "lost"
    """It was heard of once and is gone; what it held is still its own until the leases end."""


LIVE = frozenset({MachineState.STARTING, MachineState.IDLE, MachineState.BUSY})
OVER = frozenset({MachineState.DONE, MachineState.STUCK})


class ShapeMachine(msgspec.Struct, frozen=True, kw_only=True):
    """One factory of a shape, as fleet and provider together know it."""

    name: str
    state: MachineState
    enrolled: bool
    """Whether the fleet knows it."""
    exists: bool
    """Whether the provider has it."""


class ScaleLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What is set for a shape."""

    maximum: int
    cool_down: timedelta
    start_within: timedelta
    """How long a machine may take to come to work."""


class ScaleMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a shape from one look to the next; a new autoscaler begins without."""

    wanted: tuple[tuple[datetime, int], ...] = ()
    """How many were wanted within the cool-down, and since when; the newest last."""
    since: tuple[tuple[str, datetime], ...] = ()
    """Since when machines are not known to the fleet, or drain and have nothing to do."""
    joined: frozenset[str] = frozenset()
    """Machines that the fleet has known."""
    failures: int = 0
    """Starts in a row that came to nothing."""
    not_before: datetime | None = None
    """When the next one is tried, after a failure."""


class ScalePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done about a shape now."""

    start: int = 0
    drain: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    """No work is left there: the machine can go, and the fleet can forget it."""
    live: int = 0
    keep: int = 0
    """The most that were wanted within the cool-down."""
    retry_at: datetime | None = None
    """When the next start is tried, where one would be due now."""


def assess_machines(
    sights: Iterable[ShapeFactory],
    existing: Iterable[str],
    memory: ScaleMemory,
    limits: ScaleLimits,
    now: datetime,
) -> tuple[list[ShapeMachine], ScaleMemory]:
    """Put together what the fleet and the provider know; by name."""
    there = frozenset(existing)
    fleet = {sight.id: sight for sight in sights}
    before, since = dict(memory.since), {}
    found = []
    for name in sorted(there | fleet.keys()):
        sight = fleet.get(name)
        if sight is None or (sight.state is FactoryState.DRAINING and not sight.jobs):
            since[name] = before.get(name, now)
        waited = now - since.get(name, now)
        if sight is not None:
            standing = _of_member(sight, limits, now, waited, exists=name in there)
        elif name in memory.joined:
            standing = MachineState.DONE
        else:
            standing = MachineState.STUCK if waited > limits.start_within else MachineState.STARTING
        found.append(
            ShapeMachine(
                name=name,
                state=standing,
                enrolled=sight is not None,
                exists=name in there,
            )
        )
    heard = {name for name, sight in fleet.items() if sight.state is not FactoryState.STARTING}
    joined = (memory.joined & there) | heard
    return found, replace(memory, since=tuple(since.items()), joined=joined)


def _of_member(
    sight: ShapeFactory, limits: ScaleLimits, now: datetime, waited: timedelta, *, exists: bool
) -> MachineState:
    match sight.state:
        case FactoryState.DRAINING if sight.jobs or (exists and waited <= ENDS_WITHIN):
            return MachineState.ENDING
        case FactoryState.DRAINING:
            return MachineState.DONE
        case FactoryState.STARTING:
            in_time = exists and now - sight.enrolled_at <= limits.start_within
            return MachineState.STARTING if in_time else MachineState.STUCK
        case FactoryState.IDLE | FactoryState.BUSY if exists:
            return MachineState.BUSY if sight.jobs else MachineState.IDLE
        case _:
            # Its leases run out by themselves; until then they are nobody else's.
            return MachineState.LOST if sight.jobs else MachineState.DONE


def plan_scaling(
    wanted: int,
    found: Sequence[ShapeMachine],
    memory: ScaleMemory,
    limits: ScaleLimits,
    now: datetime,
) -> tuple[ScalePlan, ScaleMemory]:
    """Decide what to do, from how many are wanted and what there is.

    Only idle machines are drained, and only down to the most that were wanted within the cool-down;
    a new autoscaler takes what it finds for wanted.
    """
    live = sum(machine.state in LIVE for machine in found)
    past = memory.wanted or ((now, live),)
    # A number holds until the next one: the newest of those before the window still counts.
    before = sum(at <= now - limits.cool_down for at, _ in past)
    window = list(past[max(0, before - 1) :])
    if window[-1][1] != wanted:
        window.append((now, wanted))
    keeps = max(n for _, n in window)
    room = limits.maximum - sum(machine.state is not MachineState.LOST for machine in found)
    due = max(0, min(wanted - live, room))
    waits = memory.not_before if memory.not_before and memory.not_before > now else None
    # From the end: what was there first has the warmest places.
    idle = [machine.name for machine in reversed(found) if machine.state is MachineState.IDLE]
    steps = ScalePlan(
        start=0 if waits is not None else due,
        drain=tuple(idle[: max(0, live - keeps)]),
        end=tuple(machine.name for machine in found if machine.state in OVER),
        live=live,
        keep=keeps,
        retry_at=waits if due else None,
    )
    return steps, replace(memory, wanted=tuple(window))


def record_start_failure(memory: ScaleMemory, now: datetime) -> ScaleMemory:
    """A start came to nothing: the next one waits, each time twice as long."""
    pause = min(RETRY_MIN * (1 << min(memory.failures, 16)), RETRY_MAX)
    return replace(memory, failures=memory.failures + 1, not_before=now + pause)


def record_start_success(memory: ScaleMemory) -> ScaleMemory:
    """A machine came to work: whatever was wrong is over."""
    return replace(memory, failures=0, not_before=None)


def free_names(prefix: str, taken: Iterable[str], count: int) -> list[str]:
    """Give so many names that nobody has: the lowest numbers, so that places are used again."""
    used = set(taken)
    numbered = (f"{prefix}{number}" for number in itertools.count(1))
    return list(itertools.islice((name for name in numbered if name not in used), count))
