"""The insights overview: roll-ups, wait times, engine advice and objectives."""

import asyncio
from collections.abc import Sequence
from datetime import date

from msgspec.structs import replace

from gigafactory.coordinator.core.ports import Clock, Store, all_records
from gigafactory.coordinator.insights.insights import InsightQueries, tally_spaces
from gigafactory.coordinator.insights.slo import Objectives
from gigafactory.domain.insights.confidence import advice, sorted_advice
from gigafactory.domain.insights.engine_advice import Advice
from gigafactory.domain.insights.engine_stats import PAIRED, months, pair_name, rollups_by_group
from gigafactory.domain.insights.run_rollup import GroupBy, Insights
from gigafactory.domain.insights.tally import Tally, key_prefix, roll_up_tallies
from gigafactory.domain.tenancy.access import Caller


class Overview:
    """Combines all insights for the web page, the API and the command line."""

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
    ) -> Insights:
        """Roll up runs; without a job, add wait times, engine advice and objectives."""
        insights = await self._insights.show(caller, by, since=since, job=job)
        if job is not None:
            return insights
        return replace(
            self._objectives.with_waits(caller, insights),
            advice=tuple(await self._advice(caller, by)),
            objectives=tuple(await self._objectives.measure(caller)),
        )

    async def _advice(self, caller: Caller, by: Sequence[GroupBy]) -> Sequence[Advice]:
        """Return engine advice for all work, and for each profile and repo, most certain first."""
        engines = roll_up_tallies(await self._tallies(caller, GroupBy.ENGINE))
        found = [advice(engines.values())]
        for each in PAIRED:
            if each in by:
                groups = rollups_by_group(await self._tallies(caller, pair_name(each)))
                found += sorted_advice(advice(rows, each, name) for name, rows in groups.items())
        return found

    async def _tallies(self, caller: Caller, by: str) -> Sequence[Tally]:
        read = [
            all_records(self._store, Tally, prefix=key_prefix(space, by, month))
            for space in tally_spaces(caller)
            for month in months(self._clock.now().date())
        ]
        return [tally for found in await asyncio.gather(*read) for tally in found]
