"""The insights overview: roll-ups, wait times, engine advice and objectives."""

from collections.abc import Sequence
from datetime import date

from msgspec.structs import replace

from gigafactory.coordinator.insights.insights import InsightQueries
from gigafactory.coordinator.insights.observations import ObservationReader
from gigafactory.coordinator.insights.slo import Objectives
from gigafactory.domain.insights.engine_comparison import ADVICE_MONTHS, compare_engines
from gigafactory.domain.insights.run_rollup import GroupBy, Insights
from gigafactory.domain.tenancy.access import Caller


class Overview:
    """Combines all insights for the web page, the API and the command line."""

    def __init__(
        self, insights: InsightQueries, objectives: Objectives, observations: ObservationReader
    ) -> None:
        self._insights = insights
        self._objectives = objectives
        self._observations = observations

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
        observations = await self._observations.read_visible(caller, ADVICE_MONTHS)
        return replace(
            self._objectives.with_waits(caller, insights),
            advice=tuple(compare_engines(observations, by)),
            objectives=tuple(await self._objectives.measure(caller)),
        )
