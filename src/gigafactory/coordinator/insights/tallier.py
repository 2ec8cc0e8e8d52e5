"""The tallies: what runs came to, kept up behind the runs, and never counted twice."""

from collections import defaultdict
from collections.abc import Sequence

from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.core.leadership import Leadership
from gigafactory.coordinator.core.ports import Clock, Store, all_records
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.insights.routing import trip_event
from gigafactory.domain.insights.engine_stats import paired
from gigafactory.domain.insights.exploration import Episode, Trials, Tried
from gigafactory.domain.insights.observation_tally import Lessons
from gigafactory.domain.insights.routing_rollout import Routing
from gigafactory.domain.insights.run_rollup import By
from gigafactory.domain.insights.tally import (
    Counts,
    Slip,
    Tally,
    added_to,
    additions,
    taught,
    totals,
)
from gigafactory.domain.job.change import RecordChange, Stored
from gigafactory.domain.job.run import Run

WHO = "system:tallies"
SLIPS_AT_ONCE = 100
"""Others are served between two commits: a few milliseconds of work each."""
LOOK_ANYWAY = 12
"""What is learned of a run without an event waits for so many steps at most."""


class Tallier:
    """Adds slips to tallies and removes them, both in one commit: exactly once, whoever crashes."""

    def __init__(
        self, store: Store, committer: Committer, clock: Clock, index: Index, leadership: Leadership
    ) -> None:
        """Keep tallies in this store while leading."""
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._leadership = leadership
        self._looked_at = -1
        self._idle = 0

    async def step(self) -> None:
        """Add up all slips that there are; does nothing unless this coordinator leads."""
        if not self._leadership.is_leader(self._clock.now()):
            return
        self._idle += 1
        position = self._index.position
        if position == self._looked_at and self._idle < LOOK_ANYWAY:
            return
        self._looked_at, self._idle = position, 0
        while slips := await self._store.records(Slip, limit=SLIPS_AT_ONCE):
            # A lost race is another's work on the same slips: they are looked at again.
            if not await self._add(slips):
                return

    async def _add(self, slips: Sequence[Slip]) -> bool:
        added: defaultdict[str, list[Counts]] = defaultdict(list)
        lessons, trials = Lessons(), Trials()
        for slip in slips:
            earlier = await self._earlier_runs(slip)
            counted = additions(slip, earlier)
            for key, counts in (*counted.items(), *paired(slip, counted).items()):
                added[key].append(counts)
            day, told = slip.groups[By.DAY], taught(slip, earlier)
            lessons.add(day[:7], told)
            if told and slip.routed is not None:
                tried = (slip.product_id, slip.job_id, day, slip.routed, slip.propensity, told)
                trials.add(Tried(*tried))
        known = await self._store.records_by_key(Tally, {*added, *lessons.keys})
        tallied = (
            RecordChange(before=known.get(key), after=added_to(known.get(key), key, more))
            for key, more in sorted(totals(added).items())
        )
        learned = [
            *lessons.saved(known),
            *(await self._update_episodes(trials) if trials.episodes else ()),
            *(await self._update_rollouts(trials) if trials.products else ()),
        ]
        gone = (RecordChange(before=slip, after=None) for slip in slips)
        return isinstance(
            await self._committer.commit(WHO, "tally", *tallied, *learned, *gone), Stored
        )

    async def _update_episodes(self, trials: Trials) -> list[RecordChange]:
        return list(trials.kept(await self._store.records_by_key(Episode, trials.episodes)))

    async def _update_rollouts(self, trials: Trials) -> list[RecordChange]:
        """The rollouts with more tries; one that does harm is switched back in the same commit."""
        now = self._clock.now()
        saved = []
        for before, after in trials.judged(
            await self._store.records_by_key(Routing, trials.products), now
        ):
            events = (trip_event(after, WHO),) if after.tripped != before.tripped else ()
            saved.append(RecordChange(before=before, after=after, events=events))
        return saved

    async def _earlier_runs(self, slip: Slip) -> Sequence[Run]:
        """The runs of a job that ran before; most jobs run once, and need no look."""
        if slip.number == 1 or not slip.ends:
            return ()
        return await all_records(self._store, Run, prefix=f"{slip.job_id}.")
