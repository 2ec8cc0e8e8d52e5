"""Insights: what runs came to, rolled up by what they have in common."""

from datetime import date
from typing import Annotated

import msgspec
from litestar import get
from litestar.types import ASGIApp
from msgspec import Meta
from msgspec.structs import asdict

from gigafactory.api.http.decoding import Word
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import Call
from gigafactory.api.http.response import answer
from gigafactory.api.render.jobs import Money, View
from gigafactory.domain.insights.run_rollup import By, Insights, Rollup
from gigafactory.domain.insights.slo import ALLOWED, Measured
from gigafactory.domain.manifest.units import format_usd

USUAL = "engine,profile,repo,day"
_BY = "|".join(By)


class InsightsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to roll up, and which runs."""

    by: Annotated[str, Meta(pattern=rf"^({_BY})(,({_BY})){{0,7}}$(?!\n)", examples=[USUAL])] = USUAL
    """What to put together by, with commas; `job` only with a `job`."""
    since: Annotated[date, Meta(examples=["2026-11-01"])] | None = None
    """Only runs that began on this day (UTC) or later."""
    job: Word | None = None
    """Only the runs of this job, or of this composite's children."""


class RollupView(View, frozen=True, kw_only=True):
    """What a group of runs came to; the shipping of their work is not among them."""

    group: str
    runs: int
    running: int
    """Of one job or composite; fleet-wide, only runs that have ended are counted."""
    jobs: int
    results: dict[str, int]
    tokens_in: int
    tokens_cached: int
    tokens_cache_write: int
    tokens_out: int
    tokens_reasoning: int
    cost_usd: Money
    """Of the runs whose cost is known."""
    cost_nano_usd: int
    estimated: int
    """Runs whose cost was worked out from prices."""
    unmetered: int
    """Runs that have ended without anybody knowing their cost."""
    wall_sec: float
    first_pass: float | None
    """The share of jobs that came out well at once, 0 to 1."""
    first_passes: int
    first_tries: int
    approved: int
    rejected: int
    changes_requested: int
    shipped: int
    """Jobs that were shipped, on the day of their shipping; 0 where a `job` was asked for."""
    escaped: int
    """Those of them that were reverted or named in a bug afterwards."""
    cost_of_shipped_usd: Money | None
    """What a shipped job has cost; null while none was shipped."""
    waits: int
    """Grants of such jobs since the coordinator that answers began; 0 by day, product and job."""
    wait_sec: float
    """How long all of them waited for a factory."""


class AdviceView(View, frozen=True, kw_only=True):
    """What first tries of this month and the two before say about engines, in words."""

    by: str
    """`all`, or what the work has in common: `profile` or `repo`, where that was asked for."""
    group: str
    engine: str | None
    """The one that is clearly ahead; null while there are too few tries, or none is."""
    first_tries: int
    says: str
    """With the number of tries and the 95 % interval of each share that it names."""


class ObjectiveView(View, frozen=True, kw_only=True):
    """An objective, what was counted against it, and what is left of its error budget."""

    objective: str
    promise: str
    allowed: float
    """The share that may go wrong, 0 to 1."""
    wrong: int
    of: int
    """0 where nothing was measured."""
    share: float | None
    """What went wrong."""
    left: float | None
    """The part of the error budget that is left: 1 untouched, 0 spent, below 0 overspent."""
    window: str
    """Over which time it was counted, for people."""


class InsightsView(View, frozen=True, kw_only=True):
    """All runs together, and in groups by each of what was asked for."""

    total: RollupView
    by: dict[str, list[RollupView]]
    advice: list[AdviceView]
    """First about all work; empty where a `job` was asked for."""
    objectives: list[ObjectiveView]
    """Empty where a `job` was asked for."""


@get(
    "/insights",
    opt=operation("Fleet", query=InsightsQuery, gives={200: Body(of=InsightsView)}, refuses=(404,)),
)
async def insights(request: Call) -> ASGIApp:
    """Add up what runs have used and how they came out, by what they have in common.

    Of the chosen product, or of all that the token covers. A run is counted within seconds of its
    end. A job counts once in each group, on the day of its first run there. Beside that: which
    engine first tries speak for, and how the service keeps its objectives.
    """
    caller = await request.caller()
    asked = request.query(InsightsQuery)
    by = [By(name) for name in dict.fromkeys(asked.by.split(","))]
    told = await request.coordinator.overview.show(caller, by, since=asked.since, job=asked.job)
    return answer(_insights(told))


def _insights(told: Insights) -> InsightsView:
    groups = {by: [_rollup(one) for one in each] for by, each in told.by.items()}
    return InsightsView(
        total=_rollup(told.total),
        by=groups,
        advice=[AdviceView(**asdict(one)) for one in told.advice],
        objectives=[_objective(one) for one in told.objectives],
    )


def _rollup(one: Rollup) -> RollupView:
    nanos = one.cost_of_shipped
    return RollupView(
        **asdict(one),
        cost_of_shipped_usd=None if nanos is None else format_usd(nanos),
        cost_usd=format_usd(one.cost_nano_usd),
        first_pass=one.first_pass,
    )


def _objective(one: Measured) -> ObjectiveView:
    return ObjectiveView(
        **asdict(one),
        promise=one.promise,
        allowed=ALLOWED.get(one.objective, 0.0),
        share=one.share,
        left=one.left,
    )


ROUTES = (insights,)
