"""The tallier: adds finished runs to the tallies, exactly once."""

from collections import defaultdict
from collections.abc import Sequence

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.leadership import Leadership
from gigafactory.coordinator.core.ports import Clock, Store, all_records
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.insights.routing import trip_event
from gigafactory.domain.insights.exploration import Episode, TrialBatch, TrialStep
from gigafactory.domain.insights.observation_tally import ObservationBatch
from gigafactory.domain.insights.routing_rollout import RoutingRollout
from gigafactory.domain.insights.run_rollup import GroupBy
from gigafactory.domain.insights.tally import (
    RunCounts,
    Tally,
    TallyIncrement,
    add_to_tally,
    first_try_updates,
    sum_counts_by_key,
    tally_additions,
)
from gigafactory.domain.job.change import RecordChange, Stored
from gigafactory.domain.job.run import Run

ACTOR = "system:tallies"
INCREMENTS_AT_ONCE = 100
"""Increments per commit: keeps each commit to a few milliseconds, so that others are served."""
LOOK_ANYWAY = 12
"""Steps after which increments are read even without new events."""


class Tallier:
    """The duty that adds increments to tallies and removes them in one commit: exactly once."""

    def __init__(
        self, store: Store, committer: Committer, clock: Clock, index: Index, leadership: Leadership
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._leadership = leadership
        self._looked_at = -1
        self._idle = 0

    async def step(self) -> None:
        """Add all pending increments to the tallies, if this coordinator leads."""
        if not self._leadership.is_leader(self._clock.now()):
            return
        self._idle += 1
        position = self._index.position
        if position == self._looked_at and self._idle < LOOK_ANYWAY:
            return
        self._looked_at, self._idle = position, 0
        while increments := await self._store.records(TallyIncrement, limit=INCREMENTS_AT_ONCE):
            # After a lost race, another coordinator added the same increments: try again next step.
            if not await self._add(increments):
                return

    async def _add(self, increments: Sequence[TallyIncrement]) -> bool:
        added: defaultdict[str, list[RunCounts]] = defaultdict(list)
        observations, trials = ObservationBatch(), TrialBatch()
        for increment in increments:
            earlier = await self._earlier_runs(increment)
            for key, counts in tally_additions(increment, earlier).items():
                added[key].append(counts)
            day, updates = increment.groups[GroupBy.DAY], first_try_updates(increment, earlier)
            observations.add(day[:7], updates)
            if updates and increment.routing is not None:
                trial = (
                    increment.product_id,
                    increment.job_id,
                    day,
                    increment.routing,
                    increment.propensity,
                    updates,
                )
                trials.add(TrialStep(*trial))
        stored = await self._store.records_by_key(Tally, {*added, *observations.keys})
        tallied = (
            RecordChange(before=stored.get(key), after=add_to_tally(stored.get(key), key, more))
            for key, more in sorted(sum_counts_by_key(added).items())
        )
        learned = [
            *observations.writes(stored),
            *(await self._update_episodes(trials) if trials.episodes else ()),
            *(await self._update_rollouts(trials) if trials.products else ()),
        ]
        removals = (RecordChange(before=increment, after=None) for increment in increments)
        return isinstance(
            await self._committer.commit(ACTOR, "tally", *tallied, *learned, *removals), Stored
        )

    async def _update_episodes(self, trials: TrialBatch) -> list[RecordChange]:
        return list(
            trials.save_episodes(await self._store.records_by_key(Episode, trials.episodes))
        )

    async def _update_rollouts(self, trials: TrialBatch) -> list[RecordChange]:
        """Return the updated rollouts; a harmful one is switched back in the same commit."""
        now = self._clock.now()
        saved = []
        for before, after in trials.update_rollouts(
            await self._store.records_by_key(RoutingRollout, trials.products), now
        ):
            events = (trip_event(after, ACTOR),) if after.tripped != before.tripped else ()
            saved.append(RecordChange(before=before, after=after, events=events))
        return saved

    async def _earlier_runs(self, increment: TallyIncrement) -> Sequence[Run]:
        """Return the earlier runs of a job; most jobs run once and need no query."""
        if increment.number == 1 or not increment.ends_run:
            return ()
        return await all_records(self._store, Run, prefix=f"{increment.job_id}.")
