"""Run rollups: counts, cost, duration and success of runs, by group."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from gigafactory.domain.insights.engine_advice import Advice
from gigafactory.domain.insights.slo import SloMeasurement
from gigafactory.domain.job.job import Result, Step
from gigafactory.domain.job.run import Review, Run, Usage

NO_GROUP = "none"
"""The group of runs without engine, profile or repo."""

UNJUDGED_RESULTS = frozenset(
    {
        Result.RATE_LIMITED,
        Result.ENGINE_UNAVAILABLE,
        Result.OVERLOADED,
        Result.PREEMPTED,
        Result.RELEASED,
        Result.LOST,
        Result.CANCELLED,
        Result.SUPERSEDED,
    }
)
"""Results that say nothing about the quality of the work."""


class GroupBy(StrEnum):
    """The ways to group runs."""

    ENGINE = "engine"
    PROFILE = "profile"
    REPO = "repo"
    DAY = "day"
    FACTORY = "factory"
    PRODUCT = "product"
    COMPOSITE = "composite"
    JOB = "job"


class RunRollup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The totals of a group of runs; ship steps are not counted."""

    group: str
    runs: int = 0
    running: int = 0
    """Runs that have not ended."""
    jobs: int = 0
    results: dict[str, int] = {}
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_cache_write: int = 0
    tokens_out: int = 0
    tokens_reasoning: int = 0
    cost_nano_usd: int = 0
    """The exact cost of the runs whose cost is known."""
    estimated: int = 0
    """Runs whose cost was computed from prices, not reported by the engine."""
    unmetered: int = 0
    """Ended runs with unknown cost."""
    wall_sec: float = 0.0
    first_passes: int = 0
    """Jobs whose first judged run succeeded."""
    first_tries: int = 0
    """Jobs that have a judged run."""
    approved: int = 0
    """Runs approved in review."""
    rejected: int = 0
    changes_requested: int = 0
    shipped: int = 0
    """Shipped jobs; counted fleet-wide, not for single jobs."""
    escaped: int = 0
    """Shipped jobs with a defect found later."""
    waits: int = 0
    """Grants with a known wait: fleet-wide, those since this coordinator started."""
    wait_sec: float = 0.0
    """The total wait for a factory of those grants."""

    @property
    def mean_wait(self) -> float | None:
        """The mean wait for a factory in seconds; None when unknown."""
        return self.wait_sec / self.waits if self.waits else None

    @property
    def cost_per_shipped(self) -> int | None:
        """The cost per shipped job in nano-dollars; None while none was shipped."""
        return self.cost_nano_usd // self.shipped if self.shipped else None

    @property
    def first_pass_rate(self) -> float | None:
        """The fraction of jobs that passed at first attempt; None without judged runs."""
        return self.first_passes / self.first_tries if self.first_tries else None


class Insights(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Rollups of all runs, in total and by group; for a fleet also advice and objectives."""

    total: RunRollup
    by: dict[str, tuple[RunRollup, ...]]
    advice: tuple[Advice, ...] = ()
    objectives: tuple[SloMeasurement, ...] = ()


def summarize_runs(
    runs: Iterable[Run], by: Sequence[GroupBy], *, since: datetime | None = None
) -> Insights:
    """Return the rollups of the runs granted since a time, by each of these groupings."""
    run_steps = [run for run in runs if run.step is Step.RUN]
    # The first attempt of a job may be older than `since`.
    first = first_try_ids(run_steps)
    wanted = [run for run in run_steps if since is None or run.granted_at >= since]
    groups = {each.value: roll_up_runs(wanted, each, first) for each in by}
    return Insights(total=_rollup("all", wanted, first), by=groups)


def roll_up_runs(runs: Iterable[Run], by: GroupBy, first: frozenset[str]) -> tuple[RunRollup, ...]:
    """Return one rollup per group, by name; `first` are the run ids of first attempts."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(group_of(run, by), []).append(run)
    return tuple(_rollup(group, groups[group], first) for group in sorted(groups))


def group_of(run: Run, by: GroupBy) -> str:
    """Return the group of a run."""
    return _GROUP[by](run) or NO_GROUP


def first_try_ids(runs: Iterable[Run]) -> frozenset[str]:
    """Return the ids of the first judged run of each job."""
    first: dict[str, Run] = {}
    for run in runs:
        if run.result is None or run.result in UNJUDGED_RESULTS:
            continue
        earliest = first.get(run.job_id)
        if earliest is None or run.number < earliest.number:
            first[run.job_id] = run
    return frozenset(run.id for run in first.values())


def _rollup(group: str, runs: Sequence[Run], first: frozenset[str]) -> RunRollup:
    used = [run.usage or Usage() for run in runs]
    ended = [run for run in runs if run.ended_at is not None]
    tries = [run for run in runs if run.id in first]
    return RunRollup(
        group=group,
        runs=len(runs),
        running=len(runs) - len(ended),
        jobs=len({run.job_id for run in runs}),
        results=dict(sorted(Counter(str(run.result) for run in ended if run.result).items())),
        tokens_in=sum(each.tokens_in for each in used),
        tokens_cached=sum(each.tokens_cached for each in used),
        tokens_cache_write=sum(each.tokens_cache_write for each in used),
        tokens_out=sum(each.tokens_out for each in used),
        tokens_reasoning=sum(each.tokens_reasoning for each in used),
        cost_nano_usd=sum(each.cost_nano_usd or 0 for each in used),
        estimated=sum(each.estimated for each in used),
        unmetered=sum(run.usage is None or run.usage.cost_nano_usd is None for run in ended),
        wall_sec=round(sum(map(wall_sec, ended)), 3),
        first_passes=sum(run.result is Result.OK for run in tries),
        first_tries=len(tries),
        approved=sum(run.review is Review.APPROVED for run in runs),
        rejected=sum(run.review is Review.REJECTED for run in runs),
        changes_requested=sum(run.review is Review.CHANGES_REQUESTED for run in runs),
    )


def wall_sec(run: Run) -> float:
    """Return the duration of an ended run: as reported, else from its start and end."""
    if run.wall_sec is not None:
        return run.wall_sec
    assert run.ended_at is not None, "asked only of runs that have ended"
    return (run.ended_at - (run.started_at or run.granted_at)).total_seconds()


def _day(run: Run) -> str:
    return (run.started_at or run.granted_at).astimezone(UTC).date().isoformat()


_GROUP: Mapping[GroupBy, Callable[[Run], str | None]] = {
    GroupBy.ENGINE: lambda run: run.engine,
    GroupBy.PROFILE: lambda run: run.profile,
    GroupBy.REPO: lambda run: run.repo,
    GroupBy.DAY: _day,
    GroupBy.FACTORY: lambda run: run.factory_id,
    GroupBy.PRODUCT: lambda run: run.product_id,
    GroupBy.COMPOSITE: lambda run: run.parent_id,
    GroupBy.JOB: lambda run: run.job_id,
}
