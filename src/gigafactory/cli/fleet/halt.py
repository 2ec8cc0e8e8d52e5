"""`aq halt` and `aq resume`: stop and continue granting jobs."""

from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder import target as queue_folder
from gigafactory.cli.output.text import note, say, say_json
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import fleet
from gigafactory.wire.admin import SwitchView

EVERYTHING = click.option("--all", "everything", is_flag=True, help="All products.")
REASON = click.option("--reason", "-m", default="", help="Reason; recorded in the audit log.")


@click.command()
@REASON
@click.option("--stop", is_flag=True, help="Also ask running jobs to hand back.")
@EVERYTHING
@queue_folder.FOLDER
@for_fleet
def halt(
    session: Session, *, reason: str, stop: bool, everything: bool, folder: Path | None
) -> None:
    """Stop granting jobs: no job starts after this command returns.

    Applies to the chosen product, the whole fleet (--all) or a folder. Running jobs continue,
    unless --stop is given.
    """
    target_folder = queue_folder.folder_target(session, folder)
    if target_folder is not None:
        _halt_here(session, target_folder, reason, stop=stop)
        return
    session.answer(
        fleet.halt(product_of_switch(session, everything), reason=reason, stop=stop), _show
    )


def _halt_here(session: Session, folder: Path, reason: str, *, stop: bool) -> None:
    from gigafactory.folder.queue.halt import halt as halt_folder

    queue = queue_folder.queue_in(session, folder)
    made = halt_folder(queue, queue_folder.current_user(), reason, stop=stop)
    if session.as_json:
        say_json(msgspec.json.encode(made))
        return
    say(f"{queue.board.root} is halted")
    note("`aq resume` continues")


def product_of_switch(session: Session, everything: bool) -> str | None:  # noqa: FBT001 - as the option came
    """Return the product of the switch; None for the whole fleet."""
    return None if everything else session.config.client.product


def _show(switch: SwitchView) -> None:
    say(f"{describe_switch(switch)} is halted")
    if switch.stopping is not None:
        note(f"{switch.stopping} running jobs were asked to hand back")
    note("`aq resume` continues")


def describe_switch(switch: SwitchView) -> str:
    """Return what a switch applies to."""
    return "the whole fleet" if switch.product == "*" else f"product {switch.product}"


@click.command()
@REASON
@EVERYTHING
@queue_folder.FOLDER
@for_fleet
def resume(session: Session, *, reason: str, everything: bool, folder: Path | None) -> None:
    """End a halt of the chosen product, the whole fleet or a folder."""
    target_folder = queue_folder.folder_target(session, folder)
    if target_folder is not None:
        _resume_here(session, target_folder)
        return
    call = fleet.resume(product_of_switch(session, everything), reason=reason)
    session.answer(call, lambda switch: say(f"{describe_switch(switch)} continues"))


def _resume_here(session: Session, folder: Path) -> None:
    from gigafactory.folder.queue.halt import lift

    queue = queue_folder.queue_in(session, folder)
    lift(queue)
    if session.as_json:
        say_json(b'{"halted": false}')
    else:
        say(f"{queue.board.root} continues")
