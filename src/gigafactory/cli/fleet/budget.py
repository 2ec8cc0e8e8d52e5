"""`aq budget`: show, set, pause and resume a budget."""

import click

from gigafactory.cli.output.text import note, pairs, say, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import products as budgets
from gigafactory.domain.manifest.units import parse_usd
from gigafactory.domain.tenancy.budget import AtCeiling, Period
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT
from gigafactory.wire.budgets import BudgetDoc, BudgetView, BurndownView

NO_CEILING = "none"


@click.group()
def budget() -> None:
    """Show, set, pause and resume the budget of a product."""


def _product(session: Session) -> str:
    return session.access.product or DEFAULT_PRODUCT


@budget.command()
@for_fleet
def show(session: Session) -> None:
    """Show the limit, the spending and reservations, and whether it is paused."""
    session.answer(budgets.budget(_product(session)), _show)


def _show(budget: BudgetView) -> None:
    pairs(
        (
            ("product", budget.product_id),
            ("limit", _dollars(budget.ceiling_usd) or "none"),
            ("period", budget.period),
            ("spent", f"{_dollars(budget.spent_usd)}{_share(budget)}"),
            ("estimated", _dollars(budget.estimated_usd) if budget.estimated_usd != "0" else None),
            ("reserved", _dollars(budget.reserved_usd)),
            ("left", _dollars(budget.left_usd)),
            ("a run", f"{_dollars(budget.reserve_usd)} reserved by default"),
            (
                "at 100 %",
                "running jobs hand back" if budget.at_ceiling == "stop" else "running jobs finish",
            ),
        )
    )
    if budget.paused:
        note(f"paused: {budget.says}")


def _dollars(amount: str | None) -> str | None:
    return None if amount is None else f"${amount}"


def _share(budget: BudgetView) -> str:
    return f" ({budget.percent} %)" if budget.ceiling_usd is not None else ""


@budget.command("set")
@click.argument("usd")
@click.option(
    "--period",
    type=click.Choice([period.value for period in Period]),
    default=Period.MONTH.value,
    show_default=True,
    help="Period of the limit, in UTC.",
)
@click.option(
    "--reserve",
    default="1",
    show_default=True,
    help="Dollars to reserve for a run without a budget or history.",
)
@click.option(
    "--at-ceiling",
    type=click.Choice([policy.value for policy in AtCeiling]),
    default=AtCeiling.STOP.value,
    show_default=True,
    help="Whether running jobs hand back at the limit, or may finish.",
)
@for_fleet
def set_(session: Session, *, usd: str, period: str, reserve: str, at_ceiling: str) -> None:
    """Set the limit to USD dollars, or to `none`."""
    for amount in (*(() if usd == NO_CEILING else (usd,)), reserve):
        _require_dollars(amount)
    doc = BudgetDoc(
        ceiling_usd=None if usd == NO_CEILING else usd,
        period=Period(period),
        reserve_usd=reserve,
        at_ceiling=AtCeiling(at_ceiling),
    )
    session.answer(budgets.set_budget(_product(session), doc), _show)


def _require_dollars(amount: str) -> None:
    try:
        parse_usd(amount)
    except ValueError as expected:
        raise click.UsageError(f"found {amount!r}; expected {expected}") from None


@budget.command()
@click.option("--reason", "-m", default="", help="Reason.")
@for_fleet
def pause(session: Session, *, reason: str) -> None:
    """Start no more jobs of the product until it is resumed; running jobs continue."""
    session.answer(budgets.pause(_product(session), reason), lambda view: say(view.says))


@budget.command()
@for_fleet
def resume(session: Session) -> None:
    """End a pause."""
    call = budgets.resume(_product(session))
    session.answer(call, lambda view: say(f"product {view.product_id} continues: {view.says}"))


@budget.command()
@for_fleet
def burndown(session: Session) -> None:
    """List the days of this period with spending and remaining budget."""
    session.answer(budgets.burndown(_product(session)), _show_days)


def _show_days(burndown: BurndownView) -> None:
    rows = [
        (day.day, _dollars(day.spent_usd), _dollars(day.sum_usd), _dollars(day.left_usd))
        for day in burndown.days
    ]
    table(("DAY", "SPENT", "SUM", "LEFT"), rows)
