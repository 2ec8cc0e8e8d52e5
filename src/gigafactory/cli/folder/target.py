"""Which folder a command is about, and how what is in it is shown."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from gigafactory.cli.output.text import note, say, say_json, staged
from gigafactory.cli.session import Session
from gigafactory.config.data_dir import SERVER_URL, read_line
from gigafactory.domain.errors import NotFound

if TYPE_CHECKING:
    from gigafactory.folder.queue.record import Kept
    from gigafactory.folder.queue.store import Queue

PATH = click.Path(path_type=Path, file_okay=False)
FOLDER = click.option("--folder", type=PATH, help="Act on the queue in this folder, not a fleet.")
INBOX = click.option("--inbox", type=PATH, help="A folder of job files to work on as well.")
HERE = click.option("--folder", type=PATH, default=Path(), help="The queue; by default, this one.")


def is_queue(folder: Path) -> bool:
    """Whether a folder is a queue."""
    return (folder / "inbox").is_dir() and (folder / ".state").is_dir()


def chosen(session: Session, folder: Path | None) -> Path | None:
    """The queue that a command of the fleet is about after all; None for the fleet.

    That is the one named, or the one that we are in where no coordinator is configured.
    """
    if folder is not None:
        return folder
    config = session.config
    fleet = config.client.url is not None or read_line(config.data / SERVER_URL) is not None
    return Path() if not fleet and is_queue(Path()) else None


def queue_in(session: Session, folder: Path) -> "Queue":
    """The queue of a folder that is one, if only by its columns; what it does is said to stderr.

    Raises NotFound.
    """
    require_inbox(folder)
    from gigafactory.system import logging as log
    from gigafactory.wiring.folder_process import open_queue

    log.configure(session.config.log.level, session.config.log.format)
    return open_queue(folder)


def require_inbox(folder: Path) -> None:
    """Refuse a folder into which nobody has put a job.

    Raises NotFound.
    """
    if not (folder / "inbox").is_dir():
        hint = "`aq add FILE` makes a folder one, and so does a folder `inbox` in it"
        raise NotFound("queue", str(folder.absolute()), hint)


def somebody() -> str:
    """Who types this, as stories name people."""
    return f"user:{os.environ.get('USER') or os.environ.get('LOGNAME') or 'somebody'}"


def act_here(session: Session, folder: Path, job: str, action: str, given: dict[str, Any]) -> None:
    """Do what a person asks of a job of a folder, and show the job."""
    from gigafactory.folder.queue.actions import Wish, act

    queue = queue_in(session, folder)
    wish = {"reason" if name == "comment" else name: value for name, value in given.items()}
    done = act(queue, job, action, somebody(), Wish(**wish))
    if isinstance(done, str):
        if session.as_json:
            say_json(msgspec.json.encode({"file": done}))
        else:
            say(f"{done} is in the inbox again")
        return
    if done.job.ship is not None and action == "ship":
        from gigafactory.wiring.folder_process import run_folder

        run_folder(session.config, folder, once=True, only=done.job.id)
        done = queue.look()[done.job.id]
    show(session, done)


def show(session: Session, kept: "Kept") -> None:
    """Print a job in a line, or as JSON."""
    if session.as_json:
        say_json(msgspec.json.encode(kept.job))
        return
    say(f"{kept.job.id}  {kept.job.name}  {staged(kept.job.stage)}")
    if kept.job.reason:
        note(f"  {kept.job.reason}")
