"""`aq serve`: run the coordinator as a service."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click

from gigafactory.cli.output.text import note
from gigafactory.cli.session import Session, with_settings


def server_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that run a coordinator."""
    host = click.option("--host", help="Address to listen on.")
    port = click.option("--port", type=int, help="Port to listen on; 0 picks a free one.")
    store = click.option("--store", help="sqlite:///…, postgresql://… or memory:")
    history = click.option(
        "--history",
        type=click.Path(path_type=Path),
        help="Write every commit request and result to this file.",
    )
    return host(port(store(history(function))))


def export_path() -> str:
    """Return the line with which another terminal finds this program; empty if it does already."""
    program, found = Path(sys.executable).with_name("aq"), shutil.which("aq")
    if not program.is_file() or (found is not None and program.samefile(found)):
        return ""
    return f'export PATH="{program.parent}:$PATH"'


@click.command()
@server_options
@with_settings
def serve(session: Session) -> None:
    """Run the coordinator until SIGTERM or Ctrl-C.

    With --json, one line {"url", "tokenFile"} is printed to stdout when it is ready; the log
    goes to stderr.
    """
    import msgspec

    from gigafactory.server.server import ServerReady
    from gigafactory.server.server import serve as run

    def announce(ready: ServerReady) -> None:
        address = {"url": ready.url, "tokenFile": str(ready.token_file)}
        if session.as_json:
            click.echo(msgspec.json.encode(address))
        else:
            note(f"aq: serving at {ready.url}")

    run(session.config, announce)
