"""Insights: what runs came to, rolled up by what they have in common."""

from datetime import date
from typing import Annotated

import msgspec
from litestar import get
from litestar.types import ASGIApp
from msgspec import Meta

from gigafactory.api.answers import answer
from gigafactory.api.call import Call
from gigafactory.api.decoding import Word
from gigafactory.api.documentation import Body, operation
from gigafactory.api.views import Money, View
from gigafactory.domain.insights import By, Insights, Rollup
from gigafactory.domain.quantity import format_usd

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


class InsightsView(View, frozen=True, kw_only=True):
    """All runs together, and in groups by each of what was asked for."""

    total: RollupView
    by: dict[str, list[RollupView]]


@get(
    "/insights",
    opt=operation("Fleet", query=InsightsQuery, gives={200: Body(of=InsightsView)}, refuses=(404,)),
)
async def insights(request: Call) -> ASGIApp:
    """Add up what runs have used and how they came out, by what they have in common.

    Of the chosen product, or of all that the token covers. A run is counted within seconds of its
    end. A job counts once in each group, on the day of its first run there.
    """
    caller = await request.caller()
    asked = request.query(InsightsQuery)
    by = [By(name) for name in dict.fromkeys(asked.by.split(","))]
    told = await request.coordinator.insights.show(caller, by, since=asked.since, job=asked.job)
    return answer(_insights(told))


def _insights(told: Insights) -> InsightsView:
    groups = {by: [_rollup(one) for one in each] for by, each in told.by.items()}
    return InsightsView(total=_rollup(told.total), by=groups)


def _rollup(one: Rollup) -> RollupView:
    return RollupView(
        **msgspec.structs.asdict(one),
        cost_usd=format_usd(one.cost_nano_usd),
        first_pass=one.first_pass,
    )


ROUTES = (insights,)
