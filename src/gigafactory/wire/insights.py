"""Records of insights: run roll-ups, advice, objectives."""

from datetime import date
from typing import Annotated

from msgspec import Meta

from gigafactory.domain.insights.run_rollup import GroupBy
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
    """Runs whose cost was estimated from prices."""
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


class InsightsView(ResponseView, frozen=True, kw_only=True):
    """Roll-ups of all runs and by each requested grouping."""

    total: RunRollupView
    by: dict[str, tuple[RunRollupView, ...]]
    advice: tuple[AdviceView, ...]
    """Overall advice first; empty with a `job` filter."""
    objectives: tuple[ObjectiveView, ...]
    """Empty with a `job` filter."""


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
