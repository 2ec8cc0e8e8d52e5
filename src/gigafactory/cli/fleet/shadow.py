"""`aq shadow`: how jobs reach factories, and whether the dispatcher would do as well."""

import click

from gigafactory.cli.output.text import note, plain, say, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import dispatch_mode as calls
from gigafactory.wire.dispatch_mode import DifferenceView, DispatchedView, PlacingView, ShadowView

MODES = ("push", "shadow", "pull")
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
DIFFERENCES = ("JOB", "OUTCOME", "IN SHADOW", "REALLY")


@click.group(invoke_without_command=True)
@for_fleet
@click.pass_context
def shadow(context: click.Context, session: Session) -> None:
    """See how jobs reach factories, and how the dispatcher in shadow compares.

    In `push` the dispatcher offers jobs, in `pull` factories ask for them. In `shadow` they ask,
    and the dispatcher decides and publishes beside them while nothing acts on it. AGREE is the
    share of jobs that went to the factory that it would have offered them to, or to one as good by
    the same score. ONLY SHADOW counts jobs that it would have offered and nobody asked for in time,
    ONLY REAL those that somebody got while it had offered them to nobody.
    """
    if context.invoked_subcommand is None:
        session.unscoped()
        session.answer(calls.shadow(), _show)


def _show(found: ShadowView) -> None:
    if not found.products:
        note("there is no product yet: the first job makes one")
        return
    table(HEADS, [_cells(each) for each in found.products])
    for each in found.products:
        _explain(each, found)


def _explain(of: DispatchedView, found: ShadowView) -> None:
    known, product = of.comparison, plain(of.product_id)
    if known is not None and known.differences:
        say()
        table(DIFFERENCES, [_difference(each) for each in known.differences])
    if of.mode != "shadow" or known is None:
        return
    if known.conclusive:
        note(f"the dispatcher may take over: aq shadow mode {product} push")
    else:
        needed = f"{found.decisions_needed} decisions at {found.agreement_needed:.0%} agreement"
        note(f"{product}: the dispatcher takes over after {needed}")


def _cells(of: DispatchedView) -> tuple[object, ...]:
    known = of.comparison
    if known is None:
        return (of.product_id, of.mode, "", "", "", "", "", "")
    share = f"{known.agreement:.1%}" if known.decisions else ""
    counts = (known.same, known.diverge, known.only_shadow, known.only_real)
    return (of.product_id, of.mode, known.decisions, share, *counts)


def _difference(of: DifferenceView) -> tuple[object, ...]:
    return (of.job_id, of.outcome.replace("_", " "), _placing(of.shadow), _placing(of.real))


def _placing(of: PlacingView | None) -> str:
    if of is None:
        return "nobody"
    return f"{of.factory_id} {of.engine or ''} ({of.score:.2f})"


@shadow.command()
@click.argument("product_id", metavar="PRODUCT")
@click.argument("mode", type=click.Choice(MODES))
@click.option("--force", is_flag=True, help="Let the dispatcher take over although it differs.")
@for_fleet
def mode(session: Session, *, product_id: str, mode: str, force: bool) -> None:
    """Set how jobs of PRODUCT reach factories: push, shadow or pull.

    `push` after another mode asks for 200 decisions in shadow of which 99 % agree. `pull` and
    `shadow` hold at once, from any mode: offers that stand are honoured or lapse, and factories
    that were offered work begin to ask for it, so that nothing is stranded.
    """
    call = calls.turn(product_id, mode, force=force)
    session.answer(call, lambda found: table(HEADS, [_cells(found)]))
