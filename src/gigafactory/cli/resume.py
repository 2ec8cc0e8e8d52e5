"""`aq resume`: jobs are given out again."""

import click

from gigafactory.cli.halt import EVERYTHING, REASON, chosen, named
from gigafactory.cli.output import say
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import fleet


@click.command()
@REASON
@EVERYTHING
@for_fleet
def resume(session: Session, *, reason: str, everything: bool) -> None:
    """Lift a halt, of the product that is set or of the whole fleet."""
    call = fleet.resume(chosen(session, everything), reason=reason)
    session.answer(call, lambda switch: say(f"{named(switch)} goes on"))
