"""All that insights tell: what runs came to, how long jobs waited, what to learn, what is kept."""

import asyncio
from collections.abc import Sequence
from datetime import date

from msgspec.structs import replace

from gigafactory.coordinator.core.ports import Clock, Store, all_records
from gigafactory.coordinator.insights.insights import InsightQueries, tally_spaces
from gigafactory.coordinator.insights.slo import Objectives
from gigafactory.domain.insights.confidence import advice, sorted_advice
from gigafactory.domain.insights.engine_advice import Advice
from gigafactory.domain.insights.engine_stats import PAIRED, apart, months, pair_name
from gigafactory.domain.insights.run_rollup import GroupBy
from gigafactory.domain.insights.run_rollup import Insights as Told
from gigafactory.domain.insights.tally import Tally, key_prefix, roll_up_tallies
from gigafactory.domain.tenancy.access import Caller


class Overview:
    """The verb `show`, with what a page, the API and the command line all tell."""

    def __init__(
        self, store: Store, clock: Clock, insights: InsightQueries, objectives: Objectives
    ) -> None:
        self._store = store
        self._clock = clock
        self._insights = insights
        self._objectives = objectives

    async def show(
        self,
        caller: Caller,
        by: Sequence[GroupBy],
        *,
        since: date | None = None,
        job: str | None = None,
    ) -> Told:
        """See Insights; of all work, and not of one job, with waits, advice and objectives."""
        told = await self._insights.show(caller, by, since=since, job=job)
        if job is not None:
            return told
        return replace(
            self._objectives.with_waits(caller, told),
            advice=tuple(await self._advice(caller, by)),
            objectives=tuple(await self._objectives.measure(caller)),
        )

    async def _advice(self, caller: Caller, by: Sequence[GroupBy]) -> Sequence[Advice]:
        """What to take for all work, and for each profile and repo, the best known first."""
        engines = roll_up_tallies(await self._tallies(caller, GroupBy.ENGINE))
        told = [advice(engines.values())]
        for each in PAIRED:
            if each in by:
                groups = apart(await self._tallies(caller, pair_name(each)))
                told += sorted_advice(advice(rows, each, name) for name, rows in groups.items())
        return told

    async def _tallies(self, caller: Caller, by: str) -> Sequence[Tally]:
        read = [
            all_records(self._store, Tally, prefix=key_prefix(space, by, month))
            for space in tally_spaces(caller)
            for month in months(self._clock.now().date())
        ]
        return [tally for found in await asyncio.gather(*read) for tally in found]
