"""`aq from-tracker` and `aq to-tracker`: import and update tickets."""

from pathlib import Path

import click
import msgspec

from gigafactory.cli.exit_codes import Exit
from gigafactory.cli.folder.target import FOLDER, queue_in
from gigafactory.cli.output.text import note, say, say_json, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import tracker
from gigafactory.wire.tracker import TicketsView, TicketUpdateView


@click.command()
@click.argument("items", nargs=-1, metavar="[ITEM...]")
@FOLDER
@for_fleet
def from_tracker(session: Session, items: tuple[str, ...], *, folder: Path | None) -> int:
    """Create jobs from the named tickets, or from all tickets for agents.

    Tickets for agents have the label `agent:run` or are assigned to the agent user. A ticket
    becomes one job, however often it is imported. With --folder, jobs are files in
    the folder's inbox.
    """
    if folder is not None:
        return _import_into_folder(session, folder, items)
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


def _import_into_folder(session: Session, folder: Path, items: tuple[str, ...]) -> int:
    from gigafactory.wiring.folder_process import import_tickets

    taken = import_tickets(session.config, folder.absolute(), items)
    if session.as_json:
        added = {"added": [str(path) for path in taken.added], "known": list(taken.known)}
        say_json(msgspec.json.encode({**added, "refused": taken.refused}))
    else:
        for path in taken.added:
            say(str(path))
        for item in taken.known:
            note(f"{item}: already imported")
        for item, detail in taken.refused.items():
            note(f"{item}: {detail}")
    return Exit.REFUSED if taken.refused else Exit.OK


@click.command()
@click.argument("jobs", nargs=-1, metavar="JOB...")
@FOLDER
@for_fleet
def to_tracker(session: Session, jobs: tuple[str, ...], *, folder: Path | None) -> None:
    """Send pending updates of jobs to their tickets: status, label and comment.

    A coordinator does this automatically (`tracker.auto`). No update is sent twice. With --folder,
    updates the named jobs of the folder, or all that have a ticket.
    """
    if folder is not None:
        _update_from_folder(session, folder, jobs)
        return
    if not jobs:
        raise click.UsageError("name the jobs whose tickets to update")
    for job in jobs:
        session.answer(tracker.echo(job), _show)


def _update_from_folder(session: Session, folder: Path, jobs: tuple[str, ...]) -> None:
    from gigafactory.wiring.folder_process import update_tickets

    results = update_tickets(session.config, queue_in(session, folder), jobs)
    if session.as_json:
        say_json(msgspec.json.encode({"told": results}))
        return
    for each in results:
        _show(TicketUpdateView(item_id=each.item_id, echoed=each.echoed, pending=each.pending))


def _show(result: TicketUpdateView) -> None:
    updates = "1 update" if result.echoed == 1 else f"{result.echoed} updates"
    state = "another process is updating it" if result.pending else f"sent {updates}"
    say(f"{result.item_id}  {state}")
