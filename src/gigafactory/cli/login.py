"""`aq login`: an address that signs one browser in."""

import click

from gigafactory.cli.output import note, say
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import governance
from gigafactory.client.answers import Login


@click.command()
@for_fleet
def login(session: Session) -> None:
    """Print an address that signs one browser in as you, once, within ten minutes."""

    def told(made: Login) -> None:
        say(f"{session.access.url.rstrip('/')}/login?code={made.code}")
        note("good for one browser, within ten minutes")

    session.answer(governance.login(), told)
