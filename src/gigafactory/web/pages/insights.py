"""The page of insights: what the runs came to, what is promised, and what can be learned of it."""

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
from gigafactory.domain.insights.confidence import wilson_interval
from gigafactory.domain.insights.engine_stats import PAIRED
from gigafactory.domain.insights.routing_rollout import RolloutMode
from gigafactory.domain.insights.run_rollup import GroupBy, RunRollup
from gigafactory.domain.manifest.units import NANOS_PER_USD
from gigafactory.domain.tenancy.access import ROLES_BY_VERB
from gigafactory.system.formatting import format_elapsed, format_money
from gigafactory.web.presenters.charts import Chart, chart
from gigafactory.web.site.rendering import page, see_other
from gigafactory.web.site.session import Sent, sent, visit

GROUPS = (GroupBy.ENGINE, GroupBy.PROFILE, GroupBy.REPO, GroupBy.FACTORY)
ROWS_MAX = 50
BARS_MAX = 8
NAME_CHARS = 12


class Measure(StrEnum):
    """What the bars of the groups show."""

    SHIPPED = "shipped"
    RUNS = "runs"
    FIRST_TRY = "first-pass"
    COST = "cost"
    TIME = "time"
    WAIT = "wait"


class Drawn(NamedTuple):
    """How a measure is drawn: its value, how that is told, and how its axis is."""

    title: str
    value: Callable[[RunRollup], float | None]
    told: Callable[[float], str]
    at_least: float = 0.0
    whole: bool = False


def _usd(value: float) -> str:
    return format_money(round(value * NANOS_PER_USD), rounded=True)


def _cost(row: RunRollup) -> float | None:
    nanos = row.cost_per_shipped
    return None if nanos is None else nanos / NANOS_PER_USD


DRAWN: Mapping[Measure, Drawn] = {
    Measure.SHIPPED: Drawn("shipped jobs", lambda row: row.shipped, "{:g}".format, whole=True),
    Measure.RUNS: Drawn("runs", lambda row: row.runs, "{:g}".format, whole=True),
    Measure.FIRST_TRY: Drawn("first pass", lambda row: row.first_pass_rate, "{:.0%}".format, 1.0),
    Measure.COST: Drawn("cost of a shipped job", _cost, _usd),
    Measure.TIME: Drawn(
        "time of a run", lambda row: row.wall_sec / row.runs if row.runs else None, format_elapsed
    ),
    Measure.WAIT: Drawn("wait for a factory", lambda row: row.mean_wait, format_elapsed),
}


class Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far back, and what the bars show."""

    days: Annotated[int, Meta(ge=1, le=366)] = 30
    show: Measure = Measure.FIRST_TRY


@get("/insights")
async def insights_page(request: ApiRequest) -> ASGIApp:
    """Show results, cost and time of the runs of some days."""
    visitor = await visit(request)
    asked = request.query(Asked)
    coordinator, caller = request.coordinator, visitor.caller
    since = coordinator.clock.now().date() - timedelta(days=asked.days - 1)
    told = await coordinator.overview.show(caller, (GroupBy.DAY, *GROUPS), since=since)
    known = {day.group: day for day in told.by[GroupBy.DAY]}
    dates = [(since + timedelta(days=n)).isoformat() for n in range(asked.days)]
    days = [known.get(date, RunRollup(group=date)) for date in dates]
    waits = coordinator.objectives.waits(caller)
    routing = await coordinator.routing.advise(caller)
    turned = {each.product_id: each.mode for each in routing.rollouts}
    return page(
        request,
        visitor,
        "insights.html",
        total=told.total,
        days=[day for day in reversed(days) if day.runs or day.shipped],
        by_day=_by_day(days),
        groups={by.value: _group(told.by[by], asked.show) for by in GROUPS},
        asked=asked,
        measures=tuple(Measure),
        drawn=DRAWN,
        waits=waits,
        waiting=_waiting(waits),
        window=coordinator.objectives.window,
        objectives=told.objectives,
        advice=told.advice[0],
        advice_for={by: {a.group: a for a in told.advice if a.by == by} for by in PAIRED},
        odds=wilson_interval,
        routing=routing,
        modes={
            p: turned.get(p, RolloutMode.OFF)
            for p in visitor.products
            if caller.product in (None, p)
        }
        if caller.role in ROLES_BY_VERB["routing"]
        else {},
        Mode=RolloutMode,
    )


class Turn(Sent, frozen=True, kw_only=True):
    """How far what was learned shall decide."""

    mode: RolloutMode


@post("/insights/routing/{product_id:str}")
async def turn_routing(request: ApiRequest) -> ASGIApp:
    """Roll what was learned out for a product, or switch it back."""
    visitor, form = await sent(request, Turn)
    product = path_product(request)
    await request.coordinator.routing.set_mode(visitor.caller, product, form.mode)
    return see_other("/insights#routing")


def _by_day(days: Sequence[RunRollup]) -> Mapping[str, Chart]:
    return {
        "Shipped a day": chart(
            [(day.group[5:], float(day.shipped)) for day in days], "{:g}".format, whole=True
        ),
        "Runs a day": chart(
            [(day.group[5:], float(day.runs)) for day in days], "{:g}".format, whole=True
        ),
        "Cost a day": chart(
            [(day.group[5:], day.cost_nano_usd / NANOS_PER_USD) for day in days], _usd
        ),
    }


def _waiting(waits: WaitHistogram) -> Chart:
    names = [*(f"≤ {_seconds(bound)}" for bound in waits.bounds), "longer"]
    counted = list(zip(names, map(float, waits.counts), strict=False))
    return chart(counted, "{:g}".format, whole=True)


def _seconds(bound: float) -> str:
    return format_elapsed(bound) if bound >= 1 else f"{bound:g} s"


class Group(NamedTuple):
    """Rollups of one kind, as a table and as bars."""

    rows: Sequence[RunRollup]
    bars: Chart


def _group(rollups: Sequence[RunRollup], measure: Measure) -> Group:
    rows = sorted(rollups, key=lambda row: (-row.runs, row.group))[:ROWS_MAX]
    drawn = DRAWN[measure]
    values = [(_short(row.group), drawn.value(row)) for row in rows[:BARS_MAX]]
    # What is not known is left out: a bar of no height would say that it is nothing.
    bars = [(name, value) for name, value in values if value is not None]
    return Group(rows, chart(bars, drawn.told, at_least=drawn.at_least, whole=drawn.whole))


def _short(name: str) -> str:
    return name if len(name) <= NAME_CHARS else f"{name[: NAME_CHARS - 1]}…"


ROUTES = (insights_page, turn_routing)
