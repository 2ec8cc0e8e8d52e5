"""Insights page: results of runs, objectives, engine advice and learned routing."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, NamedTuple

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta, Struct

from gigafactory.api.admin.products import path_product
from gigafactory.api.http.request import ApiRequest
from gigafactory.coordinator.insights.slo import WaitHistogram
from gigafactory.domain.elapsed import format_elapsed
from gigafactory.domain.insights.confidence import wilson_interval
from gigafactory.domain.insights.engine_comparison import ADVISED_GROUPS
from gigafactory.domain.insights.routing_rollout import RolloutMode
from gigafactory.domain.insights.run_rollup import GroupBy, RunRollup
from gigafactory.domain.manifest.units import NANOS_PER_USD
from gigafactory.domain.tenancy.access import ROLES_BY_VERB
from gigafactory.system.formatting import format_money
from gigafactory.web.presenters.charts import Chart, build_chart
from gigafactory.web.site.rendering import render_page, see_other
from gigafactory.web.site.session import WebForm, read_form, require_session

GROUPS = (GroupBy.ENGINE, GroupBy.PROFILE, GroupBy.REPO, GroupBy.FACTORY)
ROWS_MAX = 50
BARS_MAX = 8
NAME_CHARS = 12


class Measure(StrEnum):
    """Measure shown by the bar charts."""

    SHIPPED = "shipped"
    RUNS = "runs"
    FIRST_TRY = "first-pass"
    COST = "cost"
    TIME = "time"
    WAIT = "wait"


class MeasureSpec(NamedTuple):
    """How to chart a measure: value, format and axis."""

    title: str
    value: Callable[[RunRollup], float | None]
    format_value: Callable[[float], str]
    at_least: float = 0.0
    whole: bool = False


def _usd(value: float) -> str:
    return format_money(round(value * NANOS_PER_USD), rounded=True)


def _cost(row: RunRollup) -> float | None:
    nanos = row.cost_per_shipped
    return None if nanos is None else nanos / NANOS_PER_USD


MEASURES: Mapping[Measure, MeasureSpec] = {
    Measure.SHIPPED: MeasureSpec(
        "shipped jobs", lambda row: row.shipped, "{:g}".format, whole=True
    ),
    Measure.RUNS: MeasureSpec("runs", lambda row: row.runs, "{:g}".format, whole=True),
    Measure.FIRST_TRY: MeasureSpec(
        "first pass", lambda row: row.first_pass_rate, "{:.0%}".format, 1.0
    ),
    Measure.COST: MeasureSpec("cost per shipped job", _cost, _usd),
    Measure.TIME: MeasureSpec(
        "time per run", lambda row: row.wall_sec / row.runs if row.runs else None, format_elapsed
    ),
    Measure.WAIT: MeasureSpec("wait for a factory", lambda row: row.mean_wait, format_elapsed),
}


class InsightsPageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Number of days, and the measure of the bar charts."""

    days: Annotated[int, Meta(ge=1, le=366)] = 30
    show: Measure = Measure.FIRST_TRY


@get("/insights")
async def insights_page(request: ApiRequest) -> ASGIApp:
    """Show results, cost and duration of the runs of a period."""
    session = await require_session(request)
    query = request.query(InsightsPageQuery)
    coordinator, caller = request.coordinator, session.caller
    since = coordinator.clock.now().date() - timedelta(days=query.days - 1)
    overview = await coordinator.overview.show(caller, (GroupBy.DAY, *GROUPS), since=since)
    days_by_date = {day.group: day for day in overview.by[GroupBy.DAY]}
    dates = [(since + timedelta(days=n)).isoformat() for n in range(query.days)]
    days = [days_by_date.get(date, RunRollup(group=date)) for date in dates]
    waits = coordinator.objectives.waits(caller)
    routing = await coordinator.routing.advise(caller)
    current_modes = {each.product_id: each.mode for each in routing.rollouts}
    return render_page(
        request,
        session,
        "insights.html",
        total=overview.total,
        days=[day for day in reversed(days) if day.runs or day.shipped],
        by_day=_daily_charts(days),
        groups={by.value: _group(overview.by[by], query.show) for by in GROUPS},
        query=query,
        measures=tuple(Measure),
        specs=MEASURES,
        waits=waits,
        waiting=_wait_chart(waits),
        window=coordinator.objectives.window,
        objectives=overview.objectives,
        advice=overview.advice[0],
        advice_for={
            by: {a.group: a for a in overview.advice if a.by == by} for by in ADVISED_GROUPS
        },
        interval=wilson_interval,
        routing=routing,
        modes={
            p: current_modes.get(p, RolloutMode.OFF)
            for p in session.products
            if caller.product in (None, p)
        }
        if caller.role in ROLES_BY_VERB["routing"]
        else {},
        Mode=RolloutMode,
    )


class RoutingForm(WebForm, frozen=True, kw_only=True):
    """The mode of learned routing."""

    mode: RolloutMode


@post("/insights/routing/{product_id:str}")
async def set_routing(request: ApiRequest) -> ASGIApp:
    """Set the mode of learned routing for a product."""
    session, form = await read_form(request, RoutingForm)
    product = path_product(request)
    await request.coordinator.routing.set_mode(session.caller, product, form.mode)
    return see_other("/insights#routing")


def _daily_charts(days: Sequence[RunRollup]) -> Mapping[str, Chart]:
    return {
        "Shipped per day": build_chart(
            [(day.group[5:], float(day.shipped)) for day in days], "{:g}".format, whole=True
        ),
        "Runs per day": build_chart(
            [(day.group[5:], float(day.runs)) for day in days], "{:g}".format, whole=True
        ),
        "Cost per day": build_chart(
            [(day.group[5:], day.cost_nano_usd / NANOS_PER_USD) for day in days], _usd
        ),
    }


def _wait_chart(waits: WaitHistogram) -> Chart:
    names = [*(f"≤ {_seconds(bound)}" for bound in waits.bounds), "longer"]
    counts = list(zip(names, map(float, waits.counts), strict=False))
    return build_chart(counts, "{:g}".format, whole=True)


def _seconds(bound: float) -> str:
    return format_elapsed(bound) if bound >= 1 else f"{bound:g} s"


class InsightsGroup(NamedTuple):
    """Rollups of one grouping, as a table and as a bar chart."""

    rows: Sequence[RunRollup]
    bars: Chart


def _group(rollups: Sequence[RunRollup], measure: Measure) -> InsightsGroup:
    rows = sorted(rollups, key=lambda row: (-row.runs, row.group))[:ROWS_MAX]
    spec = MEASURES[measure]
    values = [(_short(row.group), spec.value(row)) for row in rows[:BARS_MAX]]
    # Leave out unknown values: a bar of height zero would read as zero.
    bars = [(name, value) for name, value in values if value is not None]
    return InsightsGroup(
        rows, build_chart(bars, spec.format_value, at_least=spec.at_least, whole=spec.whole)
    )


def _short(name: str) -> str:
    return name if len(name) <= NAME_CHARS else f"{name[: NAME_CHARS - 1]}…"


ROUTES = (insights_page, set_routing)
