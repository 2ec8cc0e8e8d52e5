"""The page of insights: what the runs came to, by day and by what they have in common."""

from datetime import timedelta
from typing import Annotated

from litestar import get
from litestar.types import ASGIApp
from msgspec import Meta, Struct

from gigafactory.api.call import Call
from gigafactory.domain.insights import By, Rollup
from gigafactory.domain.quantity import NANOS_PER_USD, format_usd
from gigafactory.web.charts import chart
from gigafactory.web.rendering import page
from gigafactory.web.visit import visit

GROUPS = (By.ENGINE, By.PROFILE, By.REPO, By.FACTORY)
ROWS_MAX = 50


class Asked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far back."""

    days: Annotated[int, Meta(ge=1, le=366)] = 30


@get("/insights")
async def insights_page(request: Call) -> ASGIApp:
    """Show results, cost and time of the runs of some days."""
    visitor = await visit(request)
    asked = request.query(Asked)
    since = request.coordinator.clock.now().date() - timedelta(days=asked.days - 1)
    told = await request.coordinator.insights.show(visitor.caller, (By.DAY, *GROUPS), since=since)
    known = {day.group: day for day in told.by[By.DAY]}
    dates = [(since + timedelta(days=n)).isoformat() for n in range(asked.days)]
    days = [known.get(date, Rollup(group=date)) for date in dates]
    return page(
        request,
        visitor,
        "insights.html",
        total=told.total,
        days=[day for day in reversed(days) if day.runs],
        groups={by.value: _largest(told.by[by]) for by in GROUPS},
        asked=asked.days,
        runs=chart([(day.group[5:], float(day.runs)) for day in days], lambda n: f"{n:g}"),
        costs=chart(
            [(day.group[5:], day.cost_nano_usd / NANOS_PER_USD) for day in days],
            lambda usd: f"${format_usd(round(usd * NANOS_PER_USD))}",
        ),
    )


def _largest(rows: tuple[Rollup, ...]) -> list[Rollup]:
    return sorted(rows, key=lambda row: (-row.runs, row.group))[:ROWS_MAX]


ROUTES = (insights_page,)
