"""Capacity of one machine: slots and engine seats, shared by fleet jobs and the local inbox."""

import time
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from gigafactory.domain.manifest.engine_ref import base_engine

FLEET_TURN_S = 3.0
"""How long free capacity is offered to the fleet on its turn before local work takes it."""
FLEET_PASS_S = 30.0
"""How long nothing is held for the fleet after it did not use its turn."""

SLOT = ""
"""Key of the slots in maps that are otherwise keyed by engine."""

Engines = Callable[[], Iterable[str | None]]
Clock = Callable[[], float]


class WorkOrigin(StrEnum):
    """Where a run comes from: the fleet or the local inbox."""

    FLEET = "fleet"
    LOCAL = "local"


class MachineCapacity:
    """Free slots and seats, and who may use them.

    Capacity that both sides wait for goes to the side that uses less of it; on a tie, to the side
    that did not get it last. A side without work does not block the other: capacity is held for the
    fleet only briefly, and not at all while the coordinator is unreachable.
    """

    def __init__(
        self, slots: int, seats: Callable[[str], int], *, clock: Clock = time.monotonic
    ) -> None:
        """`seats` returns how many runs of an engine may be active at once."""
        self._slots = slots
        self._seats = seats
        self._clock = clock
        self._running: dict[WorkOrigin, Engines] = dict.fromkeys(WorkOrigin, tuple)
        self._local_waiting: frozenset[str] | None = None
        self._last_origin: dict[str, WorkOrigin] = {}
        self._offered_since: dict[str, float] = {}
        self._fleet_passed_at: dict[str, float] = {}
        self.is_disconnected: Callable[[], bool] = lambda: False
        """Whether the coordinator is unreachable: then nothing is held for the fleet."""
        self.closed = False
        """Whether no new run may start, from either side."""

    def track_running(self, side: WorkOrigin, engines: Engines) -> None:
        """Set the callback that returns the engine of each active run of a side."""
        self._running[side] = engines

    def record_start(self, side: WorkOrigin, engine: str | None) -> None:
        """Record which side got a slot and a seat last."""
        for name in _needed(engine):
            self._last_origin[name] = side
            if side is WorkOrigin.FLEET:
                self._offered_since.pop(name, None)
                self._fleet_passed_at.pop(name, None)

    def set_local_waiting(self, engines: Iterable[str | None]) -> bool:
        """Set the engines that local work waits for; return whether they changed."""
        waiting = frozenset(base_engine(engine or "") for engine in engines)
        news = waiting != self._local_waiting
        self._local_waiting = waiting
        return news

    def taken_by_local_work(self, engine: str | None) -> bool:
        """Return whether local work occupies what a run that was just granted needs."""
        return any(
            self._free(name) <= 0 and self._busy(WorkOrigin.LOCAL, name) > 0
            for name in _needed(engine)
        )

    def fleet_can_start(self, engine: str | None) -> bool:
        """Return whether a fleet run may start now."""
        held = self._held_for_local()
        return not self.closed and all(
            self._free(name) > (name in held) for name in _needed(engine)
        )

    def local_can_start(self, engine: str | None) -> bool:
        """Return whether a local run may start now."""
        return not self.closed and all(self._free_for_local(name) for name in _needed(engine))

    def offered_to_fleet(self, names: Iterable[str]) -> tuple[int, Mapping[str, int]]:
        """Return the slots, and the seats of these engines, that fleet runs may use."""
        held = self._held_for_local()

        def free_for_fleet(name: str, size: int) -> int:
            return max(0, size - self._busy(WorkOrigin.LOCAL, name) - (name in held))

        seats = {name: free_for_fleet(name, self._seats(name)) for name in names}
        return 0 if self.closed else free_for_fleet(SLOT, self._slots), seats

    def record_offered(self, names: Iterable[str]) -> None:
        """Record since when capacity is offered to the fleet and whether its turn has passed."""
        now, held = self._clock(), self._held_for_local()
        for name in (SLOT, *names):
            if self._free(name) <= (name in held):
                self._offered_since.pop(name, None)
            elif now - self._offered_since.setdefault(name, now) >= FLEET_TURN_S:
                self._fleet_passed_at[name] = now

    def _busy(self, side: WorkOrigin, name: str) -> int:
        return sum(name in _needed(engine) for engine in self._running[side]())

    def _free(self, name: str) -> int:
        size = self._slots if name == SLOT else self._seats(name)
        return size - sum(self._busy(side, name) for side in WorkOrigin)

    def _next_origin(self, name: str) -> WorkOrigin:
        fleet, local = (self._busy(side, name) for side in (WorkOrigin.FLEET, WorkOrigin.LOCAL))
        if fleet != local:
            return WorkOrigin.LOCAL if local < fleet else WorkOrigin.FLEET
        return (
            WorkOrigin.FLEET
            if self._last_origin.get(name) is WorkOrigin.LOCAL
            else WorkOrigin.LOCAL
        )

    def _free_for_local(self, name: str) -> bool:
        free = self._free(name)
        return free > 1 or (
            free == 1 and (self._next_origin(name) is WorkOrigin.LOCAL or self._fleet_passes(name))
        )

    def _fleet_passes(self, name: str) -> bool:
        """Whether the fleet recently did not use its turn, or cannot use it."""
        at = self._fleet_passed_at.get(name)
        return self.is_disconnected() or (at is not None and self._clock() - at < FLEET_PASS_S)

    def _held_for_local(self) -> frozenset[str]:
        """Capacity held for waiting local work: a seat, and a slot once the seat is available."""
        held: set[str] = set()
        for seat in self._local_waiting or ():
            if seat != SLOT and self._next_origin(seat) is WorkOrigin.LOCAL:
                held.add(seat)
            if (seat == SLOT or self._free_for_local(seat)) and self._next_origin(
                SLOT
            ) is WorkOrigin.LOCAL:
                held.add(SLOT)
        return frozenset(held)


def _needed(engine: str | None) -> tuple[str, ...]:
    """Return the slot and the seat that a run needs."""
    return (SLOT,) if engine is None else (SLOT, base_engine(engine))
