"""Budget endpoints."""

from litestar import get, post, put
from litestar.types import ASGIApp

from gigafactory.api.admin.products import path_product
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.domain.manifest.units import format_usd
from gigafactory.domain.tenancy.budget import Budget, burndown
from gigafactory.wire.budgets import BudgetDoc, BudgetView, BurndownView, PauseDoc, SpentDay
from gigafactory.wire.fields import optional_timestamp

TAG = "Budgets"
TERMS = {"ceilingUsd": "200", "period": "month", "reserveUsd": "1", "atCeiling": "stop"}
BUDGET = TERMS | {
    "productId": "notes",
    "spentUsd": "81.5",
    "estimatedUsd": "0",
    "reservedUsd": "4.25",
    "leftUsd": "114.25",
    "percent": 40,
    "warning": 0,
    "periodBegins": "2026-01-01T00:00:00.000Z",
    "periodEnds": "2026-02-01T00:00:00.000Z",
    "paused": False,
    "pausedBy": None,
    "pausedAt": None,
    "says": "$81.5 of $200 this month; the next month begins 2026-02-01 UTC",
}
SERIES = {
    "productId": "notes",
    "period": "month",
    "ceilingUsd": "200",
    "days": [{"day": "2026-01-01", "spentUsd": "81.5", "sumUsd": "81.5", "leftUsd": "118.5"}],
}


def _view(request: ApiRequest, of: Budget) -> BudgetView:
    now = request.coordinator.clock.now()
    spent, left, stopped = of.spent(now), of.remaining(now), of.stop_reason(now)
    return BudgetView(
        product_id=of.product_id,
        ceiling_usd=_money(of.terms.ceiling_nano_usd),
        period=of.terms.period,
        reserve_usd=format_usd(of.terms.reserve_nano_usd),
        at_ceiling=of.terms.at_ceiling,
        spent_usd=format_usd(spent.nanos),
        estimated_usd=format_usd(spent.estimated),
        reserved_usd=format_usd(of.reserved_nano_usd),
        left_usd=_money(left),
        percent=of.percent_spent(now),
        warning=of.warning_level(now),
        period_begins=optional_timestamp(of.period_start(now)),
        period_ends=optional_timestamp(of.period_end(now)),
        paused=stopped is not None,
        paused_by=of.pause.by if of.pause else None,
        paused_at=optional_timestamp(of.pause.at if of.pause else None),
        says=stopped or of.describe(now),
    )


def _money(nanos: int | None) -> str | None:
    return None if nanos is None else format_usd(nanos)


@get(
    "/budgets/{product_id:str}",
    opt=operation(TAG, responses={200: Body(of=BudgetView, example=BUDGET)}, errors=(404,)),
)
async def get_budget(request: ApiRequest) -> ASGIApp:
    """Return a product's budget: its ceiling and its spending."""
    caller = await request.caller()
    return json_response(
        _view(request, await request.coordinator.budgets.get(caller, path_product(request)))
    )


@put(
    "/budgets/{product_id:str}",
    opt=operation(
        TAG,
        body=Body(of=BudgetDoc, example=TERMS),
        responses={200: Body(of=BudgetView, example=BUDGET)},
        errors=(404, 409, 422),
    ),
)
async def put_budget(request: ApiRequest) -> ASGIApp:
    """Set a product's budget; a ceiling below the current spending is refused."""
    caller = await request.caller("budgets")
    product_id = path_product(request)
    terms = (await request.json_body(BudgetDoc)).to_domain()
    return json_response(
        _view(request, await request.coordinator.budgets.put(caller, product_id, terms))
    )


@post(
    "/budgets/{product_id:str}/pause",
    status_code=200,
    opt=operation(
        TAG,
        body=Body(of=PauseDoc, example={"reason": "waiting for finance"}),
        responses={200: Body(of=BudgetView, example=BUDGET)},
        errors=(404, 409),
        optional_body=True,
    ),
)
async def pause_budget(request: ApiRequest) -> ASGIApp:
    """Pause a product: no new work until it is resumed; running work continues."""
    caller = await request.caller("pause")
    product_id = path_product(request)
    reason = (await request.json_body(PauseDoc)).reason
    return json_response(
        _view(request, await request.coordinator.budgets.pause(caller, product_id, reason))
    )


@post(
    "/budgets/{product_id:str}/resume",
    status_code=200,
    opt=operation(
        TAG, responses={200: Body(of=BudgetView, example=BUDGET)}, errors=(404, 409, 423)
    ),
)
async def resume_budget(request: ApiRequest) -> ASGIApp:
    """Lift a pause.

    423 while the budget is spent: raise its ceiling, or wait for the next period.
    """
    caller = await request.caller()
    return json_response(
        _view(request, await request.coordinator.budgets.resume(caller, path_product(request)))
    )


@get(
    "/budgets/{product_id:str}/burndown",
    opt=operation(TAG, responses={200: Body(of=BurndownView, example=SERIES)}, errors=(404,)),
)
async def burn_down(request: ApiRequest) -> ASGIApp:
    """Return the spending of the current period by day.

    A budget with the period `total` shows its newest 62 days; earlier spending is one entry.
    """
    caller = await request.caller()
    budget = await request.coordinator.budgets.get(caller, path_product(request))
    days = tuple(
        SpentDay(
            day=point.day,
            spent_usd=format_usd(point.nanos),
            sum_usd=format_usd(point.sum_nanos),
            left_usd=_money(point.left_nanos),
        )
        for point in burndown(budget, now=request.coordinator.clock.now())
    )
    return json_response(
        BurndownView(
            product_id=budget.product_id,
            period=budget.terms.period,
            ceiling_usd=_money(budget.terms.ceiling_nano_usd),
            days=days,
        )
    )


ROUTES = (get_budget, put_budget, pause_budget, resume_budget, burn_down)
