"""`aq routing`: recommendations and rollout of learned routing."""

import click

from gigafactory.cli.output.text import note, plain, say, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import routing as calls
from gigafactory.domain.insights.routing_rollout import RolloutMode
from gigafactory.wire.routing import EstimateView, EvaluationView, RolloutView, RoutingView

MODES = tuple(mode.value for mode in RolloutMode)
HEADS = ("PRODUCT", "MODE", "LEARNED", "EXPLORING", "PASSED, LEARNED", "PASSED, BASELINE", "HARM")

ESTIMATE_HEADS = ("POLICY", "MATCHES", "IPS", "SNIPS", "DR", "TIME", "COST")


@click.group(invoke_without_command=True)
@for_fleet
@click.pass_context
def routing(context: click.Context, session: Session) -> None:
    """Show routing recommendations and each product's rollout mode.

    Each recommendation has its 95 % interval and the number of first attempts (n). HARM is the
    strength of evidence that learned routing does worse: at 100 % it is switched off automatically.
    """
    if context.invoked_subcommand is None:
        session.unscoped()
        session.answer(calls.routing(), _show)


def _show(routing: RoutingView) -> None:
    for each in routing.recommendations:
        say(f"{plain(each.product_id)}: {plain(each.told)}")
    if not routing.recommendations:
        note(f"nothing is clearly better than the current mix (n = {routing.tries})")
    if routing.rollouts:
        say()
        table(HEADS, [_cells(each) for each in routing.rollouts])
    for rollout in routing.rollouts:
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
    """Compare learned routing with the normal rules and the best single engine.

    Uses the recorded jobs whose choice was random. Shows first-pass rates with 95 % intervals by
    three estimators: IPS (inverse propensity), SNIPS (self-normalised) and DR (doubly robust). With
    too little data it draws no conclusion and says how much is needed.
    """
    session.unscoped()
    session.answer(calls.evaluation(), _show_evaluation)


def _show_evaluation(evaluation: EvaluationView) -> None:
    if evaluation.estimates:
        table(ESTIMATE_HEADS, [_estimate_row(each) for each in evaluation.estimates])
        say()
    say(plain(evaluation.told))


def _estimate_row(of: EstimateView) -> tuple[object, ...]:
    estimates = (of.ips, of.snips, of.doubly_robust)
    shares = (f"{each.share:.0%} ({each.low:.0%} to {each.high:.0%})" for each in estimates)
    duration = "" if of.seconds is None else f"{of.seconds:.0f} s"
    cost = "" if of.cost_usd is None else f"${of.cost_usd:.2f}"
    return (plain(of.policy), of.matches, *shares, duration, cost)


@routing.command()
@click.argument("product_id", metavar="PRODUCT")
@click.argument("mode", type=click.Choice(MODES))
@click.option(
    "--share",
    type=click.FloatRange(0, 1),
    help="Fraction of jobs placed by learned routing (default 0.5 in `ab`).",
)
@click.option(
    "--explore", type=click.FloatRange(0, 0.5), help="Fraction of jobs with a random choice: 0.05."
)
@for_fleet
def mode(
    session: Session, *, product_id: str, mode: str, share: float | None, explore: float | None
) -> None:
    """Set the rollout mode of learned routing for PRODUCT: off, shadow, ab or on.

    `shadow` records its choices without effect. `ab` lets it decide for half of the jobs, `on` for
    nine in ten; the rest is the baseline. `off` takes effect at once and loses no data.
    """
    call = calls.set_rollout(product_id, RolloutMode(mode), share=share, explore=explore)
    session.answer(call, lambda rollout: table(HEADS, [_cells(rollout)]))
