"""`aq routing`: what was learned of engines and factories, and how far it decides."""

import click

from gigafactory.cli.output.text import note, plain, say, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import routing as calls
from gigafactory.wire.routing import EstimateView, EvaluationView, RolloutView, RoutingView

MODES = ("off", "shadow", "ab", "on")
HEADS = ("PRODUCT", "MODE", "LEARNED", "EXPLORING", "PASSED, LEARNED", "PASSED, USUAL", "HARM")

JUDGED = ("CHOOSING BY", "MATCHES", "IPS", "SNIPS", "DR", "TIME", "COST")


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


def _show(found: RoutingView) -> None:
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


def _cells(of: RolloutView) -> tuple[object, ...]:
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


@routing.command("eval")
@for_fleet
def evaluate(session: Session) -> None:
    """Judge what was learned against the usual rules and the best engine alone.

    By the recorded jobs whose choice was drawn by lot: only they can say what would have come of
    another choice. Shares of first-pass successes with 95 % intervals, in three ways: IPS weighs by
    inverse propensity, SNIPS divides by the sum of the weights, DR (doubly robust) corrects what
    was expected. With too little data it concludes nothing, and says what would be needed.
    """
    session.unscoped()
    session.answer(calls.evaluation(), _judge)


def _judge(found: EvaluationView) -> None:
    if found.estimates:
        table(JUDGED, [_judged(each) for each in found.estimates])
        say()
    say(plain(found.told))


def _judged(of: EstimateView) -> tuple[object, ...]:
    ways = (of.ips, of.snips, of.doubly_robust)
    shares = (f"{each.share:.0%} ({each.low:.0%} to {each.high:.0%})" for each in ways)
    lasted = "" if of.seconds is None else f"{of.seconds:.0f} s"
    cost = "" if of.cost_usd is None else f"${of.cost_usd:.2f}"
    return (plain(of.policy), of.matches, *shares, lasted, cost)


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
