"""Insights endpoint: roll-ups of runs."""

from litestar import get
from litestar.types import ASGIApp
from msgspec.structs import asdict

from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.domain.insights.run_rollup import GroupBy, Insights, RunRollup
from gigafactory.domain.insights.slo import ERROR_BUDGETS, SloMeasurement
from gigafactory.domain.manifest.units import format_usd
from gigafactory.wire.insights import (
    AdviceView,
    InsightsQuery,
    InsightsView,
    ObjectiveView,
    RunRollupView,
)


@get(
    "/insights",
    opt=operation(
        "Fleet", query=InsightsQuery, responses={200: Body(of=InsightsView)}, errors=(404,)
    ),
)
async def insights(request: ApiRequest) -> ASGIApp:
    """Return roll-ups of runs: usage and outcomes by engine, profile, repo and so on.

    Covers the chosen product, or all products of the token. A run is counted within seconds of its
    end. A job counts once in each group, on the day of its first run there. Also returns engine
    advice from first attempts, and the service level objectives.
    """
    caller = await request.caller()
    query = request.query(InsightsQuery)
    by = [GroupBy(name) for name in dict.fromkeys(query.by.split(","))]
    report = await request.coordinator.overview.show(caller, by, since=query.since, job=query.job)
    return json_response(_insights(report))


def _insights(of: Insights) -> InsightsView:
    groups = {by: tuple(_rollup(one) for one in each) for by, each in of.by.items()}
    return InsightsView(
        total=_rollup(of.total),
        by=groups,
        advice=tuple(AdviceView(**asdict(one)) for one in of.advice),
        objectives=tuple(_objective(one) for one in of.objectives),
    )


def _rollup(one: RunRollup) -> RunRollupView:
    nanos = one.cost_per_shipped
    return RunRollupView(
        **asdict(one),
        cost_of_shipped_usd=None if nanos is None else format_usd(nanos),
        cost_usd=format_usd(one.cost_nano_usd),
        first_pass=one.first_pass_rate,
    )


def _objective(one: SloMeasurement) -> ObjectiveView:
    return ObjectiveView(
        **asdict(one),
        promise=one.promise,
        allowed=ERROR_BUDGETS.get(one.objective, 0.0),
        share=one.share,
        left=one.error_budget_left,
    )


ROUTES = (insights,)
