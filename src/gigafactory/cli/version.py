"""`aq version`: which one this is."""

import click

from gigafactory import __version__
from gigafactory.cli.output import say


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def version(*, as_json: bool) -> None:
    """Print the version of this program."""
    say(f'{{"version": "{__version__}"}}' if as_json else __version__)
