"""`aq from-tracker`: make jobs of tickets, in a fleet or in a folder."""

from pathlib import Path

import click
import msgspec

from gigafactory.cli.exit_codes import Exit
from gigafactory.cli.folder.target import FOLDER, queue_in
from gigafactory.cli.output.text import note, say, say_json, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import tracker
from gigafactory.wire.tracker import TicketsView, ToldView


@click.command()
@click.argument("items", nargs=-1, metavar="[ITEM...]")
@FOLDER
@for_fleet
def from_tracker(session: Session, items: tuple[str, ...], *, folder: Path | None) -> int:
    """Make jobs of tickets: of those named, or of all that were handed over to agents.

    A ticket is handed over by the label `agent:run`, or by assigning it to the agent user. The same
    ticket twice is one job. With --folder the jobs are files in the inbox of that folder.
    """
    if folder is not None:
        return _into(session, folder, items)
    refused = False

    def show(taken: TicketsView) -> None:
        nonlocal refused
        table(("ID", "NAME", "STAGE"), [(job.id, job.name, job.stage) for job in taken.jobs])
        for unfit in taken.refused:
            refused = True
            note(f"{unfit.item_id}: {unfit.detail}")

    for item in items or (None,):
        session.answer(tracker.ingest(item), show)
    return Exit.REFUSED if refused else Exit.OK


def _into(session: Session, folder: Path, items: tuple[str, ...]) -> int:
    from gigafactory.wiring.folder_process import take_tickets

    taken = take_tickets(session.config, folder.absolute(), items)
    if session.as_json:
        added = {"added": [str(path) for path in taken.added], "known": list(taken.known)}
        say_json(msgspec.json.encode({**added, "refused": taken.refused}))
    else:
        for path in taken.added:
            say(str(path))
        for item in taken.known:
            note(f"{item}: there is a job of it already")
        for item, detail in taken.refused.items():
            note(f"{item}: {detail}")
    return Exit.REFUSED if taken.refused else Exit.OK


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
    from gigafactory.wiring.folder_process import tell_tickets

    told = tell_tickets(session.config, queue_in(session, folder), jobs)
    if session.as_json:
        say_json(msgspec.json.encode({"told": told}))
        return
    for each in told:
        _show(ToldView(item_id=each.item_id, echoed=each.echoed, pending=each.pending))


def _show(told: ToldView) -> None:
    things = "1 thing" if told.echoed == 1 else f"{told.echoed} things"
    state = "somebody else is telling it" if told.pending else f"told {things}"
    say(f"{told.item_id}  {state}")
