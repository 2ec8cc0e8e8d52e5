"""The room of one machine: its slots and seats, which the fleet and a local inbox share in turn."""

import time
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

from gigafactory.domain.manifest.engine_ref import program

CHANCE_S = 3.0
"""So long the fleet is shown room that it is its turn to take, before local work takes it."""
REST_S = 30.0
"""So long after a chance that the fleet did not take nothing is held for it."""

SLOT = ""
"""The slots among the seats, which all have names."""

Engines = Callable[[], Iterable[str | None]]
Clock = Callable[[], float]


class Side(StrEnum):
    """Who a run is for."""

    FLEET = "fleet"
    LOCAL = "local"


class Room:
    """What is free, and for whom.

    What both wait for goes to the side that has fewer of it, and with as many, to the one that did
    not have it last. Nobody waits for a side that has nothing to do: the fleet is shown its turn
    for a moment only, and not at all while it is away.
    """

    def __init__(
        self, slots: int, seats: Callable[[str], int], *, clock: Clock = time.monotonic
    ) -> None:
        """`seats` tells how many runs of an engine may go on at once."""
        self._slots = slots
        self._seats = seats
        self._clock = clock
        self._engines: dict[Side, Engines] = dict.fromkeys(Side, tuple)
        self._waiting: frozenset[str] | None = None
        self._last: dict[str, Side] = {}
        self._shown_since: dict[str, float] = {}
        self._passed_at: dict[str, float] = {}
        self.cut_off: Callable[[], bool] = lambda: False
        """Whether the coordinator is away: then nothing is held for the fleet."""
        self.closed = False
        """Whether nothing new may begin, for whomever."""

    def occupied_by(self, side: Side, engines: Engines) -> None:
        """Count the runs of a side by the engines that it names, each time anew."""
        self._engines[side] = engines

    def begun(self, side: Side, engine: str | None) -> None:
        """Note who had a slot and a seat last."""
        for name in _needed(engine):
            self._last[name] = side
            if side is Side.FLEET:
                self._shown_since.pop(name, None)
                self._passed_at.pop(name, None)

    def local_waits(self, engines: Iterable[str | None]) -> bool:
        """Say for which engines local work waits (None: for none); whether that is news."""
        waiting = frozenset(program(engine or "") for engine in engines)
        news = waiting != self._waiting
        self._waiting = waiting
        return news

    def crowded_out(self, engine: str | None) -> bool:
        """Whether local work has what a run of the fleet that was just granted would need."""
        return any(
            self._free(name) <= 0 and self._busy(Side.LOCAL, name) > 0 for name in _needed(engine)
        )

    def fleet_may(self, engine: str | None) -> bool:
        """Whether a run of the fleet may begin now."""
        kept = self._kept()
        return not self.closed and all(
            self._free(name) > (name in kept) for name in _needed(engine)
        )

    def local_may(self, engine: str | None) -> bool:
        """Whether a run of local work may begin now."""
        return not self.closed and all(self._is_local(name) for name in _needed(engine))

    def shown(self, names: Iterable[str]) -> tuple[int, Mapping[str, int]]:
        """The slots, and the seats of these engines, that the fleet may fill with its runs."""
        kept = self._kept()

        def left(name: str, size: int) -> int:
            return max(0, size - self._busy(Side.LOCAL, name) - (name in kept))

        seats = {name: left(name, self._seats(name)) for name in names}
        return 0 if self.closed else left(SLOT, self._slots), seats

    def look(self, names: Iterable[str]) -> None:
        """Note what the fleet is shown, and has had its chance to take."""
        now, kept = self._clock(), self._kept()
        for name in (SLOT, *names):
            if self._free(name) <= (name in kept):
                self._shown_since.pop(name, None)
            elif now - self._shown_since.setdefault(name, now) >= CHANCE_S:
                self._passed_at[name] = now

    def _busy(self, side: Side, name: str) -> int:
        return sum(name in _needed(engine) for engine in self._engines[side]())

    def _free(self, name: str) -> int:
        size = self._slots if name == SLOT else self._seats(name)
        return size - sum(self._busy(side, name) for side in Side)

    def _turn(self, name: str) -> Side:
        fleet, local = (self._busy(side, name) for side in (Side.FLEET, Side.LOCAL))
        if fleet != local:
            return Side.LOCAL if local < fleet else Side.FLEET
        return Side.FLEET if self._last.get(name) is Side.LOCAL else Side.LOCAL

    def _is_local(self, name: str) -> bool:
        free = self._free(name)
        return free > 1 or (free == 1 and (self._turn(name) is Side.LOCAL or self._passed(name)))

    def _passed(self, name: str) -> bool:
        """Whether the fleet has let its turn pass lately, or cannot take it."""
        at = self._passed_at.get(name)
        return self.cut_off() or (at is not None and self._clock() - at < REST_S)

    def _kept(self) -> frozenset[str]:
        """What is held for local work that waits: a seat, and a slot once it has its seat."""
        kept: set[str] = set()
        for seat in self._waiting or ():
            if seat != SLOT and self._turn(seat) is Side.LOCAL:
                kept.add(seat)
            if (seat == SLOT or self._is_local(seat)) and self._turn(SLOT) is Side.LOCAL:
                kept.add(SLOT)
        return frozenset(kept)


def _needed(engine: str | None) -> tuple[str, ...]:
    """A slot, and a seat of the engine."""
    return (SLOT,) if engine is None else (SLOT, program(engine))
