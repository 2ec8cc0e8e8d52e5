"""`aq add`: copy job files into the inbox of a folder."""

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
    """Copy job files into the inbox of a folder, all or none.

    The folder becomes a queue if it is not one yet; `aq run` runs its jobs without a service.
    """
    from gigafactory.folder.queue.add import add as add_files
    from gigafactory.folder.queue.board import Board

    added = add_files(Board(folder.absolute()), files)
    if session.as_json:
        say_json(msgspec.json.encode({"added": [str(path) for path in added]}))
    else:
        for path in added:
            say(str(path))
