"""`aq attention`: what waits for a person."""

import click

from gigafactory.cli.output import age, note, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import fleet
from gigafactory.client.answers import Attention


@click.command()
@for_fleet
def attention(session: Session) -> None:
    """List what waits for a person, the most urgent first, with what can be done."""
    session.unscoped()
    session.answer(fleet.attention(), _show)


def _show(waiting: Attention) -> None:
    if not waiting.attention:
        note("nothing waits for you")
        return
    rows = [
        (each.kind, each.subject, age(each.since), ", ".join(each.actions), each.title, each.reason)
        for each in waiting.attention
    ]
    table(("KIND", "SUBJECT", "SINCE", "ACTIONS", "TITLE", "WHY"), rows)
