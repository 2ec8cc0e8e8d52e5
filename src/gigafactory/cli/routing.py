"""`aq routing`: what was learned of engines and factories, and how far it decides."""

import click

from gigafactory.cli.output import note, plain, say, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import routing as calls

MODES = ("off", "shadow", "ab", "on")
HEADS = ("PRODUCT", "MODE", "LEARNED", "EXPLORING", "PASSED, LEARNED", "PASSED, USUAL", "HARM")


@click.group(invoke_without_command=True)
@for_fleet
@click.pass_context
def routing(context: click.Context, session: Session) -> None:
    """See what does better than the present mix, and how far what was learned decides.

    Each sentence tells how much better with its 95 % interval, and on how many first tries (n) it
    stands. Nothing is told where there is too little to tell. HARM is how strong the evidence is
    that what was learned does worse: at 100 % the product is switched back by itself.
    """
    if context.invoked_subcommand is None:
        session.unscoped()
        session.answer(calls.routing(), _show)


def _show(found: calls.Routing) -> None:
    for each in found.recommendations:
        say(f"{plain(each.product_id)}: {plain(each.told)}")
    if not found.recommendations:
        note(f"nothing is clearly better than the present mix (n = {found.tries})")
    if found.rollouts:
        say()
        table(HEADS, [_cells(each) for each in found.rollouts])
    for rollout in found.rollouts:
        if (trip := rollout.tripped) is not None:
            product, why = plain(rollout.product_id), plain(trip.reason)
            note(f"{product} was switched back from {trip.mode}: {why}")


def _cells(of: calls.Rollout) -> tuple[object, ...]:
    harm = max(of.guardrails.success, of.guardrails.cost)
    return (
        of.product_id,
        of.mode,
        f"{of.share:.0%}",
        f"{of.explore:.0%}",
        f"{of.learned.passes} of {of.learned.tries}",
        f"{of.usual.passes} of {of.usual.tries}",
        f"{min(harm, 1.0):.0%}",
    )


@routing.command()
@click.argument("product_id", metavar="PRODUCT")
@click.argument("mode", type=click.Choice(MODES))
@click.option("--share", type=click.FloatRange(0, 1), help="Of jobs that go by it: 0.5.")
@click.option("--explore", type=click.FloatRange(0, 0.5), help="Of jobs that explore: 0.05.")
@for_fleet
def mode(
    session: Session, *, product_id: str, mode: str, share: float | None, explore: float | None
) -> None:
    """Set how far what was learned decides for PRODUCT: off, shadow, ab or on.

    `shadow` records what it would have chosen, and acts on nothing. `ab` lets it decide for half of
    the jobs, `on` for nine in ten: the others are what it is compared with. `off` switches back at
    once; nothing that was learned is lost.
    """
    call = calls.turn(product_id, mode, share=share, explore=explore)
    session.answer(call, lambda found: table(HEADS, [_cells(found)]))
