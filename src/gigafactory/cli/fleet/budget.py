"""`aq budget`: what a product may spend."""

import click

from gigafactory.cli.output.text import note, pairs, say, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import products as budgets
from gigafactory.domain.manifest.units import parse_usd
from gigafactory.domain.tenancy.budget import AtCeiling, Period
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT
from gigafactory.wire.budgets import BudgetView, BurndownView

NO_CEILING = "none"


@click.group()
def budget() -> None:
    """See and set what the product may spend, pause and resume it."""


def _product(session: Session) -> str:
    return session.access.product or DEFAULT_PRODUCT


@budget.command()
@for_fleet
def show(session: Session) -> None:
    """Show the ceiling, what is spent and set aside of it, and whether it is paused."""
    session.answer(budgets.budget(_product(session)), _show)


def _show(found: BudgetView) -> None:
    pairs(
        (
            ("product", found.product_id),
            ("ceiling", _dollars(found.ceiling_usd) or "none: nothing is limited"),
            ("period", found.period),
            ("spent", f"{_dollars(found.spent_usd)}{_share(found)}"),
            ("estimated", _dollars(found.estimated_usd) if found.estimated_usd != "0" else None),
            ("reserved", _dollars(found.reserved_usd)),
            ("left", _dollars(found.left_usd)),
            ("a run", f"{_dollars(found.reserve_usd)}, unless more is known"),
            ("at 100 %", "running work is stopped" if found.at_ceiling == "stop" else "it ends"),
        )
    )
    if found.paused:
        note(f"paused: {found.says}")


def _dollars(amount: str | None) -> str | None:
    return None if amount is None else f"${amount}"


def _share(found: BudgetView) -> str:
    return f" ({found.percent} %)" if found.ceiling_usd is not None else ""


@budget.command("set")
@click.argument("usd")
@click.option(
    "--period",
    type=click.Choice([period.value for period in Period]),
    default=Period.MONTH.value,
    show_default=True,
    help="What the ceiling is for; days and months are those of UTC.",
)
@click.option(
    "--reserve",
    default="1",
    show_default=True,
    help="Dollars set aside for a run that names no budget and has too few like it.",
)
@click.option(
    "--at-ceiling",
    type=click.Choice([way.value for way in AtCeiling]),
    default=AtCeiling.STOP.value,
    show_default=True,
    help="Whether running work hands back when all is spent, or may finish.",
)
@for_fleet
def set_(session: Session, *, usd: str, period: str, reserve: str, at_ceiling: str) -> None:
    """Set the ceiling to USD dollars, or to `none`."""
    for amount in (*(() if usd == NO_CEILING else (usd,)), reserve):
        _require_dollars(amount)
    call = budgets.set_budget(
        _product(session),
        None if usd == NO_CEILING else usd,
        period=period,
        reserve_usd=reserve,
        at_ceiling=at_ceiling,
    )
    session.answer(call, _show)


def _require_dollars(amount: str) -> None:
    try:
        parse_usd(amount)
    except ValueError as expected:
        raise click.UsageError(f"found {amount!r}; expected {expected}") from None


@budget.command()
@click.option("--reason", "-m", default="", help="Why; it is told to whoever asks.")
@for_fleet
def pause(session: Session, *, reason: str) -> None:
    """Give nothing of the product out until it is resumed; running work goes on."""
    session.answer(budgets.pause(_product(session), reason), lambda found: say(found.says))


@budget.command()
@for_fleet
def resume(session: Session) -> None:
    """Lift a pause."""
    call = budgets.resume(_product(session))
    session.answer(call, lambda found: say(f"product {found.product_id} goes on: {found.says}"))


@budget.command()
@for_fleet
def burndown(session: Session) -> None:
    """List the days of this period, with what was spent and what was left."""
    session.answer(budgets.burndown(_product(session)), _show_days)


def _show_days(found: BurndownView) -> None:
    rows = [
        (day.day, _dollars(day.spent_usd), _dollars(day.sum_usd), _dollars(day.left_usd))
        for day in found.days
    ]
    table(("DAY", "SPENT", "SUM", "LEFT"), rows)
