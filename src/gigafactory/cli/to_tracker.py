"""`aq to-tracker`: tell tickets how their jobs come along."""

from pathlib import Path

import click
import msgspec

from gigafactory.cli.output import say, say_json
from gigafactory.cli.queue_folder import FOLDER, queue_in
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import tracker
from gigafactory.client.tracker import Told


@click.command()
@click.argument("jobs", nargs=-1, metavar="JOB...")
@FOLDER
@for_fleet
def to_tracker(session: Session, jobs: tuple[str, ...], *, folder: Path | None) -> None:
    """Tell the tickets of jobs what they have not been told yet: status, label and a comment.

    A coordinator does this by itself (`tracker.auto`); here it is done now. Nothing is said twice.
    With --folder it is about jobs of that folder: those named, or all that have a ticket.
    """
    if folder is not None:
        _of_folder(session, folder, jobs)
        return
    if not jobs:
        raise click.UsageError("name the jobs whose tickets are to be told")
    for job in jobs:
        session.answer(tracker.echo(job), _show)


def _of_folder(session: Session, folder: Path, jobs: tuple[str, ...]) -> None:
    from gigafactory.folder_process import tell_tickets

    told = tell_tickets(session.config, queue_in(session, folder), jobs)
    if session.as_json:
        say_json(msgspec.json.encode({"told": told}))
        return
    for each in told:
        _show(Told(item_id=each.item_id, echoed=each.echoed, pending=each.pending))


def _show(told: Told) -> None:
    things = "1 thing" if told.echoed == 1 else f"{told.echoed} things"
    state = "somebody else is telling it" if told.pending else f"told {things}"
    say(f"{told.item_id}  {state}")
