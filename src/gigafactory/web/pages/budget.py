"""Budget page: spending of each product; set the limit, pause and resume."""

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
from gigafactory.web.presenters.charts import Chart, build_chart
from gigafactory.web.site.live import Part, stream_part
from gigafactory.web.site.rendering import render, render_page, see_other
from gigafactory.web.site.session import BackPage, WebForm, WebSession, read_form, require_session

SPENDING_GROUPS = (GroupBy.PRODUCT, GroupBy.ENGINE, GroupBy.PROFILE, GroupBy.DAY)


class BudgetPanel(NamedTuple):
    """The budget of one product with its burndown chart."""

    budget: Budget
    has_budget: bool
    """Whether a budget is stored; without one no spending is booked."""
    points: Sequence[BurndownPoint]
    chart: Chart
    stopped: str | None


def budget_panel(product: str, stored: Budget | None, now: datetime) -> BudgetPanel:
    """Return a budget with its burndown: cumulative spending by day against the limit."""
    budget = stored or Budget(product_id=product)
    points = burndown(budget, now=now)
    limit = budget.terms.ceiling_nano_usd
    chart = build_chart(
        [(_short_day(point.day), point.sum_nanos / NANOS_PER_USD) for point in points],
        lambda usd: format_money(round(usd * NANOS_PER_USD)),
        limit=None if limit is None else limit / NANOS_PER_USD,
    )
    return BudgetPanel(budget, stored is not None, points, chart, budget.stop_reason(now))


async def _spending(request: ApiRequest, caller: Caller) -> Mapping[str, Sequence[RunRollup]]:
    """Return this month's spending by group, highest first; days in order."""
    since = request.coordinator.clock.now().date().replace(day=1)
    rollups = await request.coordinator.insights.show(caller, SPENDING_GROUPS, since=since)
    spent = {by: [row for row in rows if row.cost_nano_usd] for by, rows in rollups.by.items()}
    return {
        by: rows if by == GroupBy.DAY else sorted(rows, key=lambda row: -row.cost_nano_usd)
        for by, rows in spent.items()
    }


def _short_day(day: str) -> str:
    """Return a day without its year; leave `earlier` as it is."""
    return day.partition("-")[2] or day


async def _part(request: ApiRequest, session: WebSession) -> Part:
    coordinator, caller = request.coordinator, session.caller
    now = coordinator.clock.now()
    budgets_by_product = {
        budget.product_id: budget for budget in await coordinator.budgets.all(caller)
    }
    visible_ids = [
        p for p in {*budgets_by_product, *session.products} if caller.product in (None, p)
    ]
    html = render(
        "_budget.html",
        budgets=[
            budget_panel(product, budgets_by_product.get(product), now)
            for product in sorted(visible_ids)
        ],
        spending=await _spending(request, caller),
        can_pause=caller.role in ROLES_BY_VERB["pause"],
        can_set=caller.role in ROLES_BY_VERB["budgets"],
        csrf=session.csrf,
        now=now,
        periods=tuple(Period),
    )
    return Part(html, "Budget · Gigafactory", "/icon.svg")


@get("/budget")
async def budget_page(request: ApiRequest) -> ASGIApp:
    """Show the budgets of all visible products."""
    session = await require_session(request)
    part = await _part(request, session)
    return render_page(request, session, "live.html", part=part, live="/live/budget")


@get("/live/budget")
async def live_budget(request: ApiRequest) -> ASGIApp:
    """Stream updates of the page."""
    session = await require_session(request)
    key = ("budget", session.csrf)
    return stream_part(request, session.caller, key, lambda: _part(request, session))


class BudgetForm(WebForm, frozen=True, kw_only=True):
    """The limit and period of a budget."""

    ceiling: Annotated[str, Meta(max_length=40)] = ""
    """In dollars; empty for no limit."""
    period: Period = Period.MONTH


@post("/budget/{product_id:str}")
async def set_budget(request: ApiRequest) -> ASGIApp:
    """Set the limit of a product."""
    session, form = await read_form(request, BudgetForm)
    product, budgets = path_product(request), request.coordinator.budgets
    current = await budgets.get(session.caller, product)
    terms = replace(current.terms, ceiling_nano_usd=_nanos(form.ceiling), period=form.period)
    await budgets.put(session.caller, product, terms)
    return see_other("/budget")


def _nanos(text: str) -> int | None:
    if not text.strip():
        return None
    try:
        return parse_usd(text.strip().removeprefix("$"))
    except ValueError as expected:
        fault = Fault("ceiling", f"found {text!r}; expected {expected}")
        raise Invalid("the budget", [fault]) from None


class PauseForm(WebForm, frozen=True, kw_only=True):
    """The reason of a pause, and the page to return to."""

    reason: Annotated[str, Meta(max_length=1000)] = ""
    back: BackPage = "/budget"


@post("/budget/{product_id:str}/pause")
async def pause(request: ApiRequest) -> ASGIApp:
    """Pause a product: start none of its jobs until it is resumed."""
    session, form = await read_form(request, PauseForm)
    budgets = request.coordinator.budgets
    await budgets.pause(session.caller, path_product(request), form.reason)
    return see_other("/budget")


@post("/budget/{product_id:str}/resume")
async def resume(request: ApiRequest) -> ASGIApp:
    """End a pause."""
    session, form = await read_form(request, PauseForm)
    await request.coordinator.budgets.resume(session.caller, path_product(request))
    return see_other(form.back)


ROUTES = (budget_page, live_budget, set_budget, pause, resume)
