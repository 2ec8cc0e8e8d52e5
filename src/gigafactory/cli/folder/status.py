"""`aq status`: the board of a folder."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from gigafactory.cli.folder.target import HERE, queue_in
from gigafactory.cli.output.text import note, say_json, table
from gigafactory.cli.session import Session, with_settings
from gigafactory.system.formatting import format_age

if TYPE_CHECKING:
    from gigafactory.folder.queue.status import BoardLine


@click.command()
@HERE
@with_settings
def status(session: Session, *, folder: Path) -> None:
    """Show every job of a folder by column, and invalid files."""
    from gigafactory.folder.queue.status import folder_status

    state = folder_status(queue_in(session, folder))
    if session.as_json:
        say_json(msgspec.json.encode(state))
        return
    if state.jobs:
        heads = ("COLUMN", "NAME", "STAGE", "PRIORITY", "FOR", "RUNS", "WHY")
        table(heads, [_row(line) for line in state.jobs])
    if state.halted is not None:
        note(f"halted {state.halted.summary}: no job starts; `aq resume` continues")
    for line in state.jobs:
        if line.edited:
            note(
                f"{line.column}/{line.file} was changed after its first run started; the change has"
            )
            note("  no effect; `aq add` it under another name to run it")
    for invalid in state.invalid:
        note(f"failed/{invalid.file} is not a valid job: {'; '.join(invalid.errors)}")
    if not state.jobs and not state.invalid:
        note("no jobs yet; `aq add FILE` copies a job into the inbox")
    if state.new:
        note(f"new in the inbox: {', '.join(state.new)}; `aq run` takes them")


def _row(line: "BoardLine") -> tuple[object, ...]:
    job = line.job
    why = line.waits or (f"runs in process {line.pid}" if line.pid else job.reason) or ""
    since = format_age(job.stage_since)
    return (line.column, job.name, job.stage, job.priority, since, job.runs, why)
