"""Roll-ups of runs: from tallies, or from the runs of one job or composite."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, date, datetime, time

from gigafactory.coordinator.core.ports import PAGE_MAX, Clock, JobQuery, Store, all_records
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.insights.run_rollup import GroupBy, Insights, RunRollup, summarize_runs
from gigafactory.domain.insights.tally import ALL as EVER
from gigafactory.domain.insights.tally import (
    ALL_PRODUCTS,
    NO_COUNTS,
    TOTAL,
    Tally,
    covering_periods,
    key_prefix,
    roll_up_tallies,
    to_rollup,
)
from gigafactory.domain.job.job import Job
from gigafactory.domain.job.lease import run_id
from gigafactory.domain.job.run import Run
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller

YEARS_MAX = 50


class InsightQueries:
    """Rolls up runs; the cost grows with the requested groups and months, not with runs."""

    def __init__(self, store: Store, clock: Clock, jobs: JobQueries) -> None:
        self._store = store
        self._clock = clock
        self._jobs = jobs

    async def show(
        self,
        caller: Caller,
        by: Sequence[GroupBy],
        *,
        since: date | None = None,
        job: str | None = None,
    ) -> Insights:
        """Roll up the ended runs of the caller's chosen or visible products.

        With a job: its own runs, or those of a composite's children, including running ones.
        Raises NotFound; Invalid for roll-ups by job without a job, or for a date too long ago.
        """
        caller.require("read", OWN_PRODUCTS)
        if job is not None:
            return await self._of_job(caller, job, by, since)
        if GroupBy.JOB in by:
            fault = Fault("by", "roll-ups by job need one job or composite; name it with `job`")
            raise Invalid("the query", [fault])
        today = self._clock.now().date()
        if since is not None and since.year < today.year - YEARS_MAX:
            fault = Fault("since", f"found {since}; expected a day of the last {YEARS_MAX} years")
            raise Invalid("the query", [fault])
        periods = covering_periods(since, today)
        total, *groups = await asyncio.gather(
            *(self._rollups(caller, each, periods) for each in (TOTAL, *by))
        )
        return Insights(
            total=next(iter(total), to_rollup(EVER, NO_COUNTS)),
            by={each.value: tuple(rollups) for each, rollups in zip(by, groups, strict=True)},
        )

    async def _rollups(
        self, caller: Caller, by: str, periods: Sequence[str]
    ) -> Sequence[RunRollup]:
        read = [
            all_records(self._store, Tally, prefix=key_prefix(space, by, period))
            for space in tally_spaces(caller)
            for period in periods
        ]
        pages = await asyncio.gather(*read)
        return list(roll_up_tallies(tally for tallies in pages for tally in tallies).values())

    async def _of_job(
        self, caller: Caller, reference: str, by: Sequence[GroupBy], since: date | None
    ) -> Insights:
        job = await self._jobs.lookup(caller, reference)
        jobs = [job, *await self._children(job)]
        ids = [run_id(each.id, n) for each in jobs for n in range(1, each.lease_epoch + 1)]
        pages = (ids[at : at + PAGE_MAX] for at in range(0, len(ids), PAGE_MAX))
        run_pages = await asyncio.gather(*(self._store.records_by_key(Run, page) for page in pages))
        runs = [run for some in run_pages for run in some.values()]
        start = None if since is None else datetime.combine(since, time(), UTC)
        return summarize_runs(runs, by, since=start)

    async def _children(self, job: Job) -> Sequence[Job]:
        if job.kind != "composite":
            return ()
        children: list[Job] = []
        query = JobQuery(parent_id=job.id, oldest_first=True, limit=PAGE_MAX)
        while page := await self._store.find_jobs(query):
            children += page
            query = JobQuery(parent_id=job.id, oldest_first=True, limit=PAGE_MAX, after=page[-1].id)
        return children


def tally_spaces(caller: Caller) -> Sequence[str]:
    """Return the tally spaces of the caller's chosen or visible products."""
    if caller.product is not None:
        return (caller.product,)
    return (ALL_PRODUCTS,) if ALL_PRODUCTS in caller.products else caller.products
