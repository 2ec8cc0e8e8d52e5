"""The learner: fits the routing model to the tallied observations, in memory."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.insights.observations import FRESH_FOR, ObservationReader
from gigafactory.domain.insights.exploration import Episode
from gigafactory.domain.insights.observation import (
    NO_OBSERVATION,
    Cell,
    Observation,
    add_observations,
    month_offset,
    retained_months,
)
from gigafactory.domain.insights.observation_tally import observation_prefix
from gigafactory.domain.insights.routing_model import RoutingModel, fit_in_steps, fit_model
from gigafactory.domain.insights.tally import Tally
from gigafactory.domain.job.change import Record, RecordChange

ACTOR = "system:learner"


class LearnedModel(msgspec.Struct, frozen=True):
    """The current observations, and the model fitted to them."""

    cells: Mapping[Cell, Observation]
    model: RoutingModel


EMPTY_MODEL = LearnedModel({}, fit_model([]))


class Learner:
    """The duty that refits the model when observations change."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        index: Index,
        observations: ObservationReader,
    ) -> None:
        self._index = index
        self._committer = committer
        self._store = store
        self._clock = clock
        self._observations = observations
        self._revisions: frozenset[tuple[str, int]] = frozenset()
        self._read_at: datetime | None = None
        self._current = self._published = EMPTY_MODEL
        self._lock = asyncio.Lock()

    async def step(self) -> None:
        """Give the scheduler the current model, if any product uses it; remove old observations."""
        guide = self._index.fleet.predictor
        if not guide.is_active:
            return
        if (learned := await self.current()) is not self._published:
            guide.use_model(learned.model, learned.cells.items())
            self._published = learned
        now = self._clock.now()
        expired_month = observation_prefix(
            f"{month_offset(retained_months(now.date())[-1], -1):%Y-%m}"
        )
        episodes = await self._store.expired_records(Episode, now)
        expired_tallies = await self._store.records(Tally, prefix=expired_month)
        old: Sequence[Record] = (*episodes, *expired_tallies)
        for each in old:
            await self._committer.commit(ACTOR, "forget", RecordChange(before=each, after=None))

    async def current(self) -> LearnedModel:
        """Return the current model, at most a few seconds old."""
        async with self._lock:
            now = self._clock.now()
            if self._read_at is None or now - self._read_at >= FRESH_FOR:
                await self._read()
                self._read_at = now
            return self._current

    async def _read(self) -> None:
        tallies = await self._observations.read()
        revisions = frozenset((each.key, each.rev) for each in tallies)
        if revisions == self._revisions:
            return
        cells: dict[Cell, Observation] = {}
        for each in tallies:
            if each.cell is not None:
                cells[each.cell] = add_observations(
                    cells.get(each.cell, NO_OBSERVATION), each.observation
                )
        for model in fit_in_steps(cells.items()):
            # Yield to other tasks between pieces of the fit.
            await asyncio.sleep(0)
            if model is not None:
                self._current = LearnedModel(cells, model)
        self._revisions = revisions
