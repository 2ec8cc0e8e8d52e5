"""`aq add`: put job files into the inbox of a folder."""

from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder.target import HERE
from gigafactory.cli.output.text import say, say_json
from gigafactory.cli.session import Session, with_settings


@click.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@HERE
@with_settings
def add(session: Session, *, files: tuple[Path, ...], folder: Path) -> None:
    """Copy job files into the inbox of a folder, all of them or none.

    The folder becomes a queue if it is none yet; `aq run` then works on it, with no service and no
    network.
    """
    from gigafactory.folder.queue.add import add as put
    from gigafactory.folder.queue.board import Board

    added = put(Board(folder.absolute()), files)
    if session.as_json:
        say_json(msgspec.json.encode({"added": [str(path) for path in added]}))
    else:
        for path in added:
            say(str(path))
