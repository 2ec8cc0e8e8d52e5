"""`aq explain`: why here, or why not yet."""

import click

from gigafactory.cli.output import plain, say, staged
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import stories
from gigafactory.domain.explain import Explanation


@click.command()
@click.argument("job")
@for_fleet
def explain(session: Session, *, job: str) -> None:
    """Say why a job is where it is, or why it does not run yet."""
    session.answer(stories.explanation(job), _show)


def _show(told: Explanation) -> None:
    say(f"{staged(told.stage)}: {plain(told.summary)}")
    for reason in told.reasons:
        say(f"  {reason.code}: {plain(reason.message)}")
    for missing in told.unroutable:
        say(f"  unroutable: {plain(missing)}")
    for why, count in told.rejections.items():
        say(f"  {count} x {plain(why)}")
