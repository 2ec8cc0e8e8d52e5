"""`aq halt`: not one more job is given out."""

from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder import target as queue_folder
from gigafactory.cli.output.text import note, say, say_json
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import fleet
from gigafactory.wire.admin import SwitchView

EVERYTHING = click.option(
    "--all", "everything", is_flag=True, help="All products, whichever is set."
)
REASON = click.option("--reason", "-m", default="", help="Why; it stands in the audit log.")


@click.command()
@REASON
@click.option("--stop", is_flag=True, help="Ask running workers to hand back, too.")
@EVERYTHING
@queue_folder.FOLDER
@for_fleet
def halt(
    session: Session, *, reason: str, stop: bool, everything: bool, folder: Path | None
) -> None:
    """Stop giving out jobs: after this there is not one more grant.

    For the product that is set, or for the whole fleet, or for a folder. Running work goes on,
    unless --stop.
    """
    here = queue_folder.chosen(session, folder)
    if here is not None:
        _halt_here(session, here, reason, stop=stop)
        return
    session.answer(fleet.halt(chosen(session, everything), reason=reason, stop=stop), _show)


def _halt_here(session: Session, folder: Path, reason: str, *, stop: bool) -> None:
    from gigafactory.folder.queue.halt import halt as halt_folder

    queue = queue_folder.queue_in(session, folder)
    made = halt_folder(queue, queue_folder.somebody(), reason, stop=stop)
    if session.as_json:
        say_json(msgspec.json.encode(made))
        return
    say(f"{queue.board.root} is halted")
    note("`aq resume` lifts it")


def chosen(session: Session, everything: bool) -> str | None:  # noqa: FBT001 - as the option came
    """The product that a switch is about; None for the whole fleet."""
    return None if everything else session.config.client.product


def _show(switch: SwitchView) -> None:
    say(f"{named(switch)} is halted")
    if switch.stopping is not None:
        note(f"{switch.stopping} running jobs were asked to hand back")
    note("`aq resume` lifts it")


def named(switch: SwitchView) -> str:
    """What a switch is about."""
    return "the whole fleet" if switch.product == "*" else f"product {switch.product}"


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
    from gigafactory.folder.queue.halt import lift

    queue = queue_folder.queue_in(session, folder)
    lift(queue)
    if session.as_json:
        say_json(b'{"halted": false}')
    else:
        say(f"{queue.board.root} goes on")
