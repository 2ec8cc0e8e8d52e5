"""The page of budgets: how each product's money goes, and who may stop or raise it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, NamedTuple

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta
from msgspec.structs import replace

from gigafactory.api.admin.products import path_product
from gigafactory.api.http.request import ApiRequest
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.insights.run_rollup import GroupBy, RunRollup
from gigafactory.domain.manifest.units import NANOS_PER_USD, parse_usd
from gigafactory.domain.tenancy.access import ROLES_BY_VERB, Caller
from gigafactory.domain.tenancy.budget import Budget, BurndownPoint, Period, burndown
from gigafactory.system.formatting import format_money
from gigafactory.web.presenters.charts import Chart, chart
from gigafactory.web.site.live import Part, stream
from gigafactory.web.site.rendering import page, rendered, see_other
from gigafactory.web.site.session import Back, Sent, Visit, sent, visit

SPENT_BY = (GroupBy.PRODUCT, GroupBy.ENGINE, GroupBy.PROFILE, GroupBy.DAY)


class Shown(NamedTuple):
    """One product's budget."""

    budget: Budget
    kept: bool
    """Whether anything is booked at all: without a budget nobody counts."""
    points: Sequence[BurndownPoint]
    chart: Chart
    stopped: str | None


def shown(product: str, kept: Budget | None, now: datetime) -> Shown:
    """A budget with its burndown: the sum so far on each day, against the ceiling."""
    budget = kept or Budget(product_id=product)
    points = burndown(budget, now=now)
    ceiling = budget.terms.ceiling_nano_usd
    made = chart(
        [(_short(point.day), point.sum_nanos / NANOS_PER_USD) for point in points],
        lambda usd: format_money(round(usd * NANOS_PER_USD)),
        limit=None if ceiling is None else ceiling / NANOS_PER_USD,
    )
    return Shown(budget, kept is not None, points, made, budget.stop_reason(now))


async def _spent_on(request: ApiRequest, caller: Caller) -> Mapping[str, Sequence[RunRollup]]:
    """What money went to in this month, which is one page of tallies: the most first."""
    since = request.coordinator.clock.now().date().replace(day=1)
    told = await request.coordinator.insights.show(caller, SPENT_BY, since=since)
    spent = {by: [row for row in rows if row.cost_nano_usd] for by, rows in told.by.items()}
    return {
        by: rows if by == GroupBy.DAY else sorted(rows, key=lambda row: -row.cost_nano_usd)
        for by, rows in spent.items()
    }


def _short(day: str) -> str:
    """A day without its year, for which there is no room; `earlier` has none."""
    return day.partition("-")[2] or day


async def _part(request: ApiRequest, visitor: Visit) -> Part:
    coordinator, caller = request.coordinator, visitor.caller
    now = coordinator.clock.now()
    known = {budget.product_id: budget for budget in await coordinator.budgets.all(caller)}
    shown_ids = [p for p in {*known, *visitor.products} if caller.product in (None, p)]
    html = rendered(
        "_budget.html",
        budgets=[shown(product, known.get(product), now) for product in sorted(shown_ids)],
        spent_on=await _spent_on(request, caller),
        pauses=caller.role in ROLES_BY_VERB["pause"],
        sets=caller.role in ROLES_BY_VERB["budgets"],
        csrf=visitor.csrf,
        now=now,
        periods=tuple(Period),
    )
    return Part(html, "Budget · Gigafactory", "/icon.svg")


@get("/budget")
async def budget_page(request: ApiRequest) -> ASGIApp:
    """Show the budgets of all products that the visitor may see."""
    visitor = await visit(request)
    part = await _part(request, visitor)
    return page(request, visitor, "live.html", part=part, live="/live/budget")


@get("/live/budget")
async def live_budget(request: ApiRequest) -> ASGIApp:
    """Keep them up to date."""
    visitor = await visit(request)
    key = ("budget", visitor.csrf)
    return stream(request, visitor.caller, key, lambda: _part(request, visitor))


class Terms(Sent, frozen=True, kw_only=True):
    """What somebody sets."""

    ceiling: Annotated[str, Meta(max_length=40)] = ""
    """In dollars; empty for none."""
    period: Period = Period.MONTH


@post("/budget/{product_id:str}")
async def set_budget(request: ApiRequest) -> ASGIApp:
    """Set what a product may spend."""
    visitor, form = await sent(request, Terms)
    product, budgets = path_product(request), request.coordinator.budgets
    known = await budgets.get(visitor.caller, product)
    terms = replace(known.terms, ceiling_nano_usd=_nanos(form.ceiling), period=form.period)
    await budgets.put(visitor.caller, product, terms)
    return see_other("/budget")


def _nanos(text: str) -> int | None:
    if not text.strip():
        return None
    try:
        return parse_usd(text.strip().removeprefix("$"))
    except ValueError as expected:
        fault = Fault("ceiling", f"found {text!r}; expected {expected}")
        raise Invalid("the budget", [fault]) from None


class Why(Sent, frozen=True, kw_only=True):
    """A word that goes with it."""

    reason: Annotated[str, Meta(max_length=1000)] = ""
    back: Back = "/budget"


@post("/budget/{product_id:str}/pause")
async def pause(request: ApiRequest) -> ASGIApp:
    """Give nothing of a product out until it is resumed."""
    visitor, form = await sent(request, Why)
    budgets = request.coordinator.budgets
    await budgets.pause(visitor.caller, path_product(request), form.reason)
    return see_other("/budget")


@post("/budget/{product_id:str}/resume")
async def resume(request: ApiRequest) -> ASGIApp:
    """Lift a pause."""
    visitor, form = await sent(request, Why)
    await request.coordinator.budgets.resume(visitor.caller, path_product(request))
    return see_other(form.back)


ROUTES = (budget_page, live_budget, set_budget, pause, resume)
