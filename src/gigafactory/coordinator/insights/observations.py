"""The observation reader: tallied observations of first attempts, cached by month."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.domain.insights.observation import (
    MONTHS_KEPT,
    Cell,
    Observation,
    retained_months,
)
from gigafactory.domain.insights.observation_tally import observation_prefix
from gigafactory.domain.insights.tally import Tally
from gigafactory.domain.tenancy.access import Caller

CELLS_MAX = 20_000
"""Observation cells returned at most, newest months first."""
STILL_MOVING = 2
"""Observations count in the month in which their run began: this many months can still grow."""
FRESH_FOR = timedelta(seconds=5)


class MonthOfTallies(NamedTuple):
    """The tallies of a month as last read."""

    tallies: Sequence[Tally]
    read_at: datetime
    is_final: bool
    """Whether the month could no longer grow when it was read."""


class ObservationReader:
    """Reads observations from the store, whether any product uses learned routing or not."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._months: dict[str, MonthOfTallies] = {}
        self._lock = asyncio.Lock()

    async def read(self, months: int = MONTHS_KEPT) -> list[Tally]:
        """Return the observations of the newest months, at most a few seconds old."""
        async with self._lock:
            now = self._clock.now()
            retained = retained_months(now.date())
            self._months = {
                key: tallies_of_month
                for key, tallies_of_month in self._months.items()
                if key in retained
            }
            tallies: list[Tally] = []
            for number, month in enumerate(retained[:months]):
                if (left := CELLS_MAX - len(tallies)) > 0:
                    tallies += (await self._read_month(month, number, now))[:left]
            return tallies

    async def read_visible(
        self, caller: Caller, months: int = MONTHS_KEPT
    ) -> list[tuple[Cell, Observation]]:
        """Return the cells of the caller's chosen or visible products; one cell may repeat."""
        return [
            (tally.cell, tally.observation)
            for tally in await self.read(months)
            if tally.cell is not None and caller.covers(tally.cell.task.product)
        ]

    async def _read_month(self, month: str, number: int, now: datetime) -> Sequence[Tally]:
        cached = self._months.get(month)
        if cached is not None and (cached.is_final or now - cached.read_at < FRESH_FOR):
            return cached.tallies
        tallies: list[Tally] = []
        prefix = observation_prefix(month)
        while len(tallies) < CELLS_MAX:
            after = tallies[-1].key if tallies else ""
            page = await self._store.records(Tally, prefix=prefix, after=after)
            if not page:
                break
            tallies += page
        self._months[month] = MonthOfTallies(tallies, now, number >= STILL_MOVING)
        return tallies
