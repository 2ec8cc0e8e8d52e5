"""Records of insights: run roll-ups, advice, objectives."""

from datetime import date
from typing import Annotated

from msgspec import Meta
from msgspec.structs import asdict

from gigafactory.domain.insights.run_rollup import GroupBy, Insights, RunRollup
from gigafactory.domain.insights.slo import ERROR_BUDGETS, SloMeasurement
from gigafactory.domain.manifest.units import format_usd
from gigafactory.wire.fields import Money, RequestDoc, ResponseView, Word

USUAL_GROUPS = "engine,profile,repo,day"
_BY = "|".join(GroupBy)


class RunRollupView(ResponseView, frozen=True, kw_only=True):
    """Roll-up of a group of runs, without ship runs."""

    group: str
    runs: int
    running: int
    """Only for one job or composite; fleet-wide, only ended runs count."""
    jobs: int
    results: dict[str, int]
    tokens_in: int
    tokens_cached: int
    tokens_cache_write: int
    tokens_out: int
    tokens_reasoning: int
    cost_usd: Money
    """Sum over runs with known cost."""
    cost_nano_usd: int
    estimated: int
    """Runs whose cost was estimated from prices, or read from files that the agent can edit."""
    unmetered: int
    """Ended runs with unknown cost."""
    wall_sec: float
    first_pass: float | None
    """Share of jobs whose first attempt passed, 0 to 1."""
    first_passes: int
    first_tries: int
    approved: int
    rejected: int
    changes_requested: int
    shipped: int
    """Shipped jobs, by ship date; 0 with a `job` filter."""
    escaped: int
    """Shipped jobs that were reverted or reported as defective."""
    cost_of_shipped_usd: Money | None
    """Cost per shipped job; null if none was shipped."""
    waits: int
    """Grants since this coordinator started; 0 by day, product and job."""
    wait_sec: float
    """Total time that they waited for a factory."""

    @classmethod
    def from_domain(cls, rollup: RunRollup) -> "RunRollupView":
        """Return the wire record of a roll-up."""
        nanos = rollup.cost_per_shipped
        return cls(
            **asdict(rollup),
            cost_of_shipped_usd=None if nanos is None else format_usd(nanos),
            cost_usd=format_usd(rollup.cost_nano_usd),
            first_pass=rollup.first_pass_rate,
        )


class AdviceView(ResponseView, frozen=True, kw_only=True):
    """Engine advice from first attempts of the last three months."""

    by: str
    """`all`, `profile` or `repo`."""
    group: str
    engine: str | None
    """The clearly best engine; null without enough data or a clear winner."""
    first_tries: int
    says: str
    """Sentence with the number of attempts and 95 % intervals."""


class ObjectiveView(ResponseView, frozen=True, kw_only=True):
    """A service level objective and the rest of its error budget."""

    objective: str
    promise: str
    allowed: float
    """Allowed failure rate, 0 to 1."""
    wrong: int
    of: int
    """Number of measurements."""
    share: float | None
    """Failure rate."""
    left: float | None
    """Rest of the error budget: 1 untouched, 0 spent, negative overspent."""
    window: str
    """Measurement window, for people."""

    @classmethod
    def from_domain(cls, measured: SloMeasurement) -> "ObjectiveView":
        """Return the wire record of a measurement."""
        return cls(
            **asdict(measured),
            promise=measured.promise,
            allowed=ERROR_BUDGETS.get(measured.objective, 0.0),
            share=measured.share,
            left=measured.error_budget_left,
        )


class InsightsView(ResponseView, frozen=True, kw_only=True):
    """Roll-ups of all runs and by each requested grouping."""

    total: RunRollupView
    by: dict[str, tuple[RunRollupView, ...]]
    advice: tuple[AdviceView, ...]
    """Overall advice first; empty with a `job` filter."""
    objectives: tuple[ObjectiveView, ...]
    """Empty with a `job` filter."""

    @classmethod
    def from_domain(cls, insights: Insights) -> "InsightsView":
        """Return the wire record of insights."""
        return cls(
            total=RunRollupView.from_domain(insights.total),
            by={
                by: tuple(RunRollupView.from_domain(one) for one in rollups)
                for by, rollups in insights.by.items()
            },
            advice=tuple(AdviceView(**asdict(one)) for one in insights.advice),
            objectives=tuple(ObjectiveView.from_domain(one) for one in insights.objectives),
        )


class InsightsQuery(RequestDoc, frozen=True, kw_only=True):
    """Grouping and filter of the runs."""

    by: Annotated[
        str, Meta(pattern=rf"^({_BY})(,({_BY})){{0,7}}$(?!\n)", examples=[USUAL_GROUPS])
    ] = USUAL_GROUPS
    """Groupings, separated by commas; `job` only with a `job` filter."""
    since: Annotated[date, Meta(examples=["2026-11-01"])] | None = None
    """Only runs that began on this day (UTC) or later."""
    job: Word | None = None
    """Only the runs of this job, or of this composite's children."""
