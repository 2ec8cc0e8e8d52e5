"""The autoscaler's plan for one shape: machines to start, drain and end, never one with work."""

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
"""How long a draining factory without work may take to end by itself."""


class MachineState(StrEnum):
    """The state of a machine of a shape, as the autoscaler sees it."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    ENDING = "ending"
    """It takes no new jobs, and ends by itself when its work is done."""
    DONE = "done"
    """It has no work and did not end by itself, or has left the fleet: to be removed."""
    STUCK = "stuck"
    """It was started, but did not join the fleet in time."""
    LOST = "lost"
    """It went offline with leased jobs; they stay its own until the leases expire."""


LIVE = frozenset({MachineState.STARTING, MachineState.IDLE, MachineState.BUSY})
ENDED = frozenset({MachineState.DONE, MachineState.STUCK})


class ShapeMachine(msgspec.Struct, frozen=True, kw_only=True):
    """One machine of a shape, as seen by the fleet and the provider."""

    name: str
    state: MachineState
    enrolled: bool
    """Whether it is a factory of the fleet."""
    exists: bool
    """Whether the provider reports it."""


class ScaleLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The configured limits of a shape."""

    maximum: int
    cool_down: timedelta
    start_within: timedelta
    """How long a machine may take to join the fleet."""


class ScaleMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The autoscaler's state of a shape between two rounds; empty after a restart."""

    wanted: tuple[tuple[datetime, int], ...] = ()
    """The wanted counts within the cool-down with their times, newest last."""
    since: tuple[tuple[str, datetime], ...] = ()
    """Since when each machine is missing from the fleet, or drains without work."""
    joined: frozenset[str] = frozenset()
    """Machines that have joined the fleet."""
    failures: int = 0
    """Consecutive failed starts."""
    not_before: datetime | None = None
    """When the next start may be tried, after a failure."""


class ScalePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The actions for a shape in this round."""

    start: int = 0
    drain: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    """Machines without work, to be removed from the provider and the fleet."""
    live: int = 0
    keep: int = 0
    """The highest wanted count within the cool-down."""
    retry_at: datetime | None = None
    """When the next start is tried, if one is due but must wait."""


def assess_machines(
    factories: Iterable[ShapeFactory],
    existing: Iterable[str],
    memory: ScaleMemory,
    limits: ScaleLimits,
    now: datetime,
) -> tuple[list[ShapeMachine], ScaleMemory]:
    """Return the machines known to the fleet or the provider, by name, and the updated memory."""
    existing_names = frozenset(existing)
    fleet = {factory.id: factory for factory in factories}
    before, since = dict(memory.since), {}
    machines = []
    for name in sorted(existing_names | fleet.keys()):
        factory = fleet.get(name)
        if factory is None or (factory.state is FactoryState.DRAINING and not factory.jobs):
            since[name] = before.get(name, now)
        waited = now - since.get(name, now)
        if factory is not None:
            state = _state_of(factory, limits, now, waited, exists=name in existing_names)
        elif name in memory.joined:
            state = MachineState.DONE
        else:
            state = MachineState.STUCK if waited > limits.start_within else MachineState.STARTING
        machines.append(
            ShapeMachine(
                name=name,
                state=state,
                enrolled=factory is not None,
                exists=name in existing_names,
            )
        )
    online = {name for name, factory in fleet.items() if factory.state is not FactoryState.STARTING}
    joined = (memory.joined & existing_names) | online
    return machines, replace(memory, since=tuple(since.items()), joined=joined)


def _state_of(
    factory: ShapeFactory, limits: ScaleLimits, now: datetime, waited: timedelta, *, exists: bool
) -> MachineState:
    match factory.state:
        case FactoryState.DRAINING if factory.jobs or (exists and waited <= ENDS_WITHIN):
            return MachineState.ENDING
        case FactoryState.DRAINING:
            return MachineState.DONE
        case FactoryState.STARTING:
            in_time = exists and now - factory.enrolled_at <= limits.start_within
            return MachineState.STARTING if in_time else MachineState.STUCK
        case FactoryState.IDLE | FactoryState.BUSY if exists:
            return MachineState.BUSY if factory.jobs else MachineState.IDLE
        case _:
            # Its leases expire by themselves; until then the jobs stay its own.
            return MachineState.LOST if factory.jobs else MachineState.DONE


def plan_scaling(
    wanted: int,
    machines: Sequence[ShapeMachine],
    memory: ScaleMemory,
    limits: ScaleLimits,
    now: datetime,
) -> tuple[ScalePlan, ScaleMemory]:
    """Return the actions for the wanted number of machines, and the updated memory.

    Only idle machines are drained, and only down to the highest wanted count within the cool-down.
    After a restart of the autoscaler, the present machines count as wanted.
    """
    live = sum(machine.state in LIVE for machine in machines)
    past = memory.wanted or ((now, live),)
    # A count holds until the next one, so the newest count before the window is included.
    before = sum(at <= now - limits.cool_down for at, _ in past)
    window = list(past[max(0, before - 1) :])
    if window[-1][1] != wanted:
        window.append((now, wanted))
    keeps = max(n for _, n in window)
    room = limits.maximum - sum(machine.state is not MachineState.LOST for machine in machines)
    due = max(0, min(wanted - live, room))
    waits = memory.not_before if memory.not_before and memory.not_before > now else None
    # Drain the newest machines first: the oldest have the warmest caches.
    idle = [machine.name for machine in reversed(machines) if machine.state is MachineState.IDLE]
    steps = ScalePlan(
        start=0 if waits is not None else due,
        drain=tuple(idle[: max(0, live - keeps)]),
        end=tuple(machine.name for machine in machines if machine.state in ENDED),
        live=live,
        keep=keeps,
        retry_at=waits if due else None,
    )
    return steps, replace(memory, wanted=tuple(window))


def record_start_failure(memory: ScaleMemory, now: datetime) -> ScaleMemory:
    """Return the memory after a failed start: the next one waits, with exponential back-off."""
    pause = min(RETRY_MIN * (1 << min(memory.failures, 16)), RETRY_MAX)
    return replace(memory, failures=memory.failures + 1, not_before=now + pause)


def record_start_success(memory: ScaleMemory) -> ScaleMemory:
    """Return the memory after a successful start, without back-off."""
    return replace(memory, failures=0, not_before=None)


def free_names(prefix: str, taken: Iterable[str], count: int) -> list[str]:
    """Return `count` unused names with the lowest numbers, so that data folders are reused."""
    used = set(taken)
    numbered = (f"{prefix}{number}" for number in itertools.count(1))
    return list(itertools.islice((name for name in numbered if name not in used), count))
