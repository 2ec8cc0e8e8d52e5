"""Choose between a folder queue and the fleet, and act on a folder."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from gigafactory.cli.output.text import colour_stage, note, say, say_json
from gigafactory.cli.session import Session
from gigafactory.config.data_dir import SERVER_URL, read_line
from gigafactory.domain.errors import NotFound

if TYPE_CHECKING:
    from gigafactory.folder.queue.record import JobRecord
    from gigafactory.folder.queue.store import FolderQueue

PATH = click.Path(path_type=Path, file_okay=False)
FOLDER = click.option(
    "--folder", type=PATH, help="Act on the folder queue here instead of a fleet."
)
INBOX = click.option("--inbox", type=PATH, help="Folder queue to work on as well.")
HERE = click.option(
    "--folder", type=PATH, default=Path(), help="The folder queue; default: this folder."
)


def is_queue(folder: Path) -> bool:
    """Return whether a folder is a queue."""
    return (folder / "inbox").is_dir() and (folder / ".state").is_dir()


def folder_target(session: Session, folder: Path | None) -> Path | None:
    """Return the folder queue that a command applies to; None for the fleet.

    It is the named folder, or the current one if it is a queue and no coordinator is configured.
    """
    if folder is not None:
        return folder
    config = session.config
    fleet = config.client.url is not None or read_line(config.data / SERVER_URL) is not None
    return Path() if not fleet and is_queue(Path()) else None


def queue_in(session: Session, folder: Path) -> "FolderQueue":
    """Open the queue of a folder and log to stderr; raise NotFound if it is not a queue."""
    require_inbox(folder)
    from gigafactory.system import logging as log
    from gigafactory.wiring.folder_process import open_queue

    log.configure(session.config.log.level, session.config.log.format)
    return open_queue(folder)


def require_inbox(folder: Path) -> None:
    """Raise NotFound if the folder has no inbox."""
    if not (folder / "inbox").is_dir():
        hint = "`aq add FILE` makes it one, or create a folder `inbox` in it"
        raise NotFound("queue", str(folder.absolute()), hint)


def current_user() -> str:
    """Return the current user as an actor of events."""
    return f"user:{os.environ.get('USER') or os.environ.get('LOGNAME') or 'somebody'}"


def act_here(session: Session, folder: Path, job: str, action: str, given: dict[str, Any]) -> None:
    """Apply an action to a job of a folder and show the job."""
    from gigafactory.folder.queue.actions import FolderActionInput, act

    queue = queue_in(session, folder)
    arguments = {"reason" if name == "comment" else name: value for name, value in given.items()}
    if action in {"approve", "ship", "promote"} and arguments.get("commit") is None:
        with queue.open() as locked:
            job_record = locked.lookup(job).job
        arguments["commit"] = job_record.head
        if job_record.head is not None:
            note(f"{job_record.name} is at commit {job_record.head}")
    done = act(queue, job, action, current_user(), FolderActionInput(**arguments))
    if isinstance(done, str):
        if session.as_json:
            say_json(msgspec.json.encode({"file": done}))
        else:
            say(f"{done} is back in the inbox")
        return
    if done.job.ship is not None and action == "ship":
        from gigafactory.wiring.folder_process import run_folder

        run_folder(session.config, folder, once=True, only=done.job.id)
        done = queue.look()[done.job.id]
    show(session, done)


def show(session: Session, record: "JobRecord") -> None:
    """Print a job as one line, or as JSON."""
    if session.as_json:
        say_json(msgspec.json.encode(record.job))
        return
    say(f"{record.job.id}  {record.job.name}  {colour_stage(record.job.stage)}")
    if record.job.reason:
        note(f"  {record.job.reason}")
