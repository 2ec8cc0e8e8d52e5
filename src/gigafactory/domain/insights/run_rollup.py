"""Insights: what runs came to, rolled up by what they have in common."""

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
"""The group of what has no engine, profile or repo."""

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
"""Results that say nothing of how good the work was."""


class GroupBy(StrEnum):
    """What runs are put together by."""

    ENGINE = "engine"
    PROFILE = "profile"
    REPO = "repo"
    DAY = "day"
    FACTORY = "factory"
    PRODUCT = "product"
    COMPOSITE = "composite"
    JOB = "job"


class RunRollup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a group of runs came to; the shipping of their work is not among them."""

    group: str
    runs: int = 0
    running: int = 0
    """Those of them that have not ended."""
    jobs: int = 0
    results: dict[str, int] = {}
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_cache_write: int = 0
    tokens_out: int = 0
    tokens_reasoning: int = 0
    cost_nano_usd: int = 0
    """Exact; of the runs whose cost is known."""
    estimated: int = 0
    """Runs whose cost was not told by their engine, but worked out from prices."""
    unmetered: int = 0
    """Runs that have ended without anybody knowing their cost."""
    wall_sec: float = 0.0
    first_passes: int = 0
    """Jobs whose first run that can be judged came out well."""
    first_tries: int = 0
    """Jobs that have such a run."""
    approved: int = 0
    """Runs whose work was approved by people."""
    rejected: int = 0
    changes_requested: int = 0
    shipped: int = 0
    """Jobs that were shipped; kept fleet-wide, and not of single jobs."""
    escaped: int = 0
    """Those of them that let a defect through."""
    waits: int = 0
    """Grants whose wait is known: fleet-wide, those since the coordinator that was asked began."""
    wait_sec: float = 0.0
    """How long all of them waited for a factory."""

    @property
    def mean_wait(self) -> float | None:
        """How long a job waited for a factory on average, in seconds; None where nobody knows."""
        return self.wait_sec / self.waits if self.waits else None

    @property
    def cost_per_shipped(self) -> int | None:
        """What a shipped job has cost, in nano-dollars; None while none was shipped."""
        return self.cost_nano_usd // self.shipped if self.shipped else None

    @property
    def first_pass_rate(self) -> float | None:
        """The share of jobs that came out well at once, 0 to 1; None where nothing can be said."""
        return self.first_passes / self.first_tries if self.first_tries else None


class Insights(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All runs together, and in groups; of a fleet also what they say, and what is promised."""

    total: RunRollup
    by: dict[str, tuple[RunRollup, ...]]
    advice: tuple[Advice, ...] = ()
    objectives: tuple[SloMeasurement, ...] = ()


def summarize_runs(
    runs: Iterable[Run], by: Sequence[GroupBy], *, since: datetime | None = None
) -> Insights:
    """Roll up the runs that were granted since then, in all of these ways."""
    known = [run for run in runs if run.step is Step.RUN]
    # Which run was a job's first is a matter of all of them, also of those from before.
    first = _first_tries(known)
    wanted = [run for run in known if since is None or run.granted_at >= since]
    groups = {each.value: roll_up_runs(wanted, each, first) for each in by}
    return Insights(total=_rollup("all", wanted, first), by=groups)


def roll_up_runs(runs: Iterable[Run], by: GroupBy, first: frozenset[str]) -> tuple[RunRollup, ...]:
    """One rollup a group, in the order of their names; `first` are the ids of jobs' first tries."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(group_of(run, by), []).append(run)
    return tuple(_rollup(group, groups[group], first) for group in sorted(groups))


def group_of(run: Run, by: GroupBy) -> str:
    """The group that a run belongs to."""
    return _GROUP[by](run) or NO_GROUP


def _first_tries(runs: Iterable[Run]) -> frozenset[str]:
    """The ids of the runs that were the first of their jobs to say how good the work was."""
    first: dict[str, Run] = {}
    for run in runs:
        if run.result is None or run.result in UNJUDGED_RESULTS:
            continue
        known = first.get(run.job_id)
        if known is None or run.number < known.number:
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
    """How long a run lasted: as it was told, else by its beginning and its end."""
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
