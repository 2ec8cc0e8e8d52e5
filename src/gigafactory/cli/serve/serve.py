"""`aq serve`: the coordinator, as a service runs it."""

from collections.abc import Callable
from pathlib import Path

import click

from gigafactory.cli.output.text import note
from gigafactory.cli.session import Session, with_settings


def listening(function: Callable[..., None]) -> Callable[..., None]:
    """The options of commands that run a coordinator."""
    host = click.option("--host", help="The address to listen on.")
    port = click.option("--port", type=int, help="The port to listen on; 0 takes any free one.")
    store = click.option("--store", help="sqlite:///…, postgresql://… or memory:")
    history = click.option(
        "--history", type=click.Path(path_type=Path), help="Note every question and answer here."
    )
    return host(port(store(history(function))))


@click.command()
@listening
@with_settings
def serve(session: Session) -> None:
    """Run the coordinator until it is told to stop (SIGTERM or Ctrl-C).

    With --json, one line {"url", "tokenFile"} goes to stdout when it is ready; its log to stderr.
    """
    import msgspec

    from gigafactory.server.server import Ready
    from gigafactory.server.server import serve as run

    def announce(ready: Ready) -> None:
        told = {"url": ready.url, "tokenFile": str(ready.token_file)}
        if session.as_json:
            click.echo(msgspec.json.encode(told))
        else:
            note(f"aq: serving at {ready.url}")

    run(session.config, announce)
