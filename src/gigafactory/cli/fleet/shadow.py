"""`aq shadow`: dispatch modes and the comparison of shadow decisions."""

import click

from gigafactory.cli.output.text import note, plain, say, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import dispatch_mode as calls
from gigafactory.domain.tenancy.dispatch_mode import DispatchMode
from gigafactory.wire.dispatch_mode import (
    DifferenceView,
    PlacingView,
    ProductDispatchView,
    ShadowView,
)

MODES = tuple(mode.value for mode in DispatchMode)
HEADS = (
    "PRODUCT",
    "MODE",
    "DECISIONS",
    "AGREE",
    "SAME FACTORY",
    "DIVERGE",
    "ONLY SHADOW",
    "ONLY REAL",
)
DIFFERENCES = ("JOB", "OUTCOME", "SHADOW", "REAL")


@click.group(invoke_without_command=True)
@for_fleet
@click.pass_context
def shadow(context: click.Context, session: Session) -> None:
    """Show each product's dispatch mode and how shadow decisions compare.

    In `push` the dispatcher offers jobs, in `pull` factories ask for them. In `shadow` factories
    ask, and the dispatcher decides without effect. AGREE is the share of jobs that went to the
    factory it would have chosen, or to one with an equal score. ONLY SHADOW: jobs it would have
    offered but no factory claimed in time. ONLY REAL: jobs a factory claimed that it would not have
    offered to any.
    """
    if context.invoked_subcommand is None:
        session.unscoped()
        session.answer(calls.shadow(), _show)


def _show(page: ShadowView) -> None:
    if not page.products:
        note("no product yet; the first job creates one")
        return
    table(HEADS, [_cells(each) for each in page.products])
    for each in page.products:
        _explain(each, page)


def _explain(of: ProductDispatchView, page: ShadowView) -> None:
    comparison, product = of.comparison, plain(of.product_id)
    if comparison is not None and comparison.differences:
        say()
        table(DIFFERENCES, [_difference(each) for each in comparison.differences])
    if of.mode != "shadow" or comparison is None:
        return
    if comparison.conclusive:
        note(f"ready to switch: aq shadow mode {product} push")
    else:
        needed = f"{page.decisions_needed} decisions at {page.agreement_needed:.0%} agreement"
        note(f"{product}: switching to push needs {needed}")


def _cells(of: ProductDispatchView) -> tuple[object, ...]:
    comparison = of.comparison
    if comparison is None:
        return (of.product_id, of.mode, "", "", "", "", "", "")
    share = f"{comparison.agreement:.1%}" if comparison.decisions else ""
    counts = (comparison.same, comparison.diverge, comparison.only_shadow, comparison.only_real)
    return (of.product_id, of.mode, comparison.decisions, share, *counts)


def _difference(of: DifferenceView) -> tuple[object, ...]:
    return (of.job_id, of.outcome.replace("_", " "), _placing(of.shadow), _placing(of.real))


def _placing(of: PlacingView | None) -> str:
    if of is None:
        return "none"
    return f"{of.factory_id} {of.engine or ''} ({of.score:.2f})"


@shadow.command()
@click.argument("product_id", metavar="PRODUCT")
@click.argument("mode", type=click.Choice(MODES))
@click.option("--force", is_flag=True, help="Switch to push despite differences.")
@for_fleet
def mode(session: Session, *, product_id: str, mode: str, force: bool) -> None:
    """Set the dispatch mode of PRODUCT: push, shadow or pull.

    Switching to `push` requires 200 shadow decisions with 99 % agreement. `pull` and `shadow` take
    effect at once: open offers are honoured or expire, and factories start polling, so that no job
    is stranded.
    """
    call = calls.set_mode(product_id, DispatchMode(mode), force=force)
    session.answer(call, lambda view: table(HEADS, [_cells(view)]))
