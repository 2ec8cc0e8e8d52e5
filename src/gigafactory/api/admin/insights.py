"""Insights endpoint: roll-ups of runs."""

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.domain.insights.run_rollup import GroupBy
from gigafactory.wire.insights import InsightsQuery, InsightsView


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
    return json_response(InsightsView.from_domain(report))


ROUTES = (insights,)
