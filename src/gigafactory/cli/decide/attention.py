"""`aq attention`: what needs a person."""

import click

from gigafactory.cli.output.tables import show_attention
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import fleet


@click.command()
@for_fleet
def attention(session: Session) -> None:
    """List what needs a person, most urgent first, with the possible actions."""
    session.unscoped()
    show_attention(session.client.fetch(fleet.attention()), as_json=session.as_json)
