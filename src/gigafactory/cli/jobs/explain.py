"""`aq explain`: why a job runs where it does, or why it waits."""

from typing import Any

import click

from gigafactory.cli.output.text import colour_stage, plain, say
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import events as stories
from gigafactory.domain.scheduler.explain import Explanation


@click.command()
@click.argument("job")
@for_fleet
def explain(session: Session, *, job: str) -> None:
    """Explain why a job runs where it does, or why it does not run yet."""
    session.answer(stories.explanation(job), _show)


def _show(explanation: Explanation) -> None:
    say(f"{colour_stage(explanation.stage)}: {plain(explanation.summary)}")
    printed = {explanation.summary}
    lines = [(each.code, each.message) for each in explanation.reasons]
    for code, message in (*lines, *(("unroutable", each) for each in explanation.unroutable)):
        if message not in printed:
            say(f"  {code}: {plain(message)}")
            printed.add(message)
    for why, count in explanation.rejections.items():
        say(f"  {count} x {plain(why)}")
    if (
        explanation.decision is not None
        and (routing := explanation.decision.get("routing")) is not None
    ):
        _show_learned(routing, explanation.decision["propensity"])


def _show_learned(routing: dict[str, Any], propensity: float) -> None:
    chosen, learned = (routing["choices"][routing[of]] for of in ("chosen", "learned"))
    by = "at random" if routing["explored"] else f"by the {routing['side']} side"
    say(f"  learned ({routing['mode']}): chosen {by}, with a probability of {propensity:.2g}")
    for word, each in (("chosen", chosen), ("learned would choose", learned)):
        name = plain(f"{each['engine']} on {each['factoryId']}")
        say(f"    {word}: {name}: passes at once {each['success']:.0%}, ${each['costUsd']:.2f}")
    say(f"    {plain(routing['standsOn'])}")
