"""`aq resume`: jobs are given out again."""

from pathlib import Path

import click

from gigafactory.cli import queue_folder
from gigafactory.cli.halt import EVERYTHING, REASON, chosen, named
from gigafactory.cli.output import say, say_json
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import fleet


@click.command()
@REASON
@EVERYTHING
@queue_folder.FOLDER
@for_fleet
def resume(session: Session, *, reason: str, everything: bool, folder: Path | None) -> None:
    """Lift a halt, of the product that is set, of the whole fleet or of a folder."""
    here = queue_folder.chosen(session, folder)
    if here is not None:
        _resume_here(session, here)
        return
    call = fleet.resume(chosen(session, everything), reason=reason)
    session.answer(call, lambda switch: say(f"{named(switch)} goes on"))


def _resume_here(session: Session, folder: Path) -> None:
    from gigafactory.folder.halting import lift

    queue = queue_folder.queue_in(session, folder)
    lift(queue)
    if session.as_json:
        say_json(b'{"halted": false}')
    else:
        say(f"{queue.board.root} goes on")
