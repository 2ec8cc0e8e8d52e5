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
    from gigafactory.folder.queue.status import Line


@click.command()
@HERE
@with_settings
def status(session: Session, *, folder: Path) -> None:
    """Show every job of a folder, column by column, and the files that are none."""
    from gigafactory.folder.queue.status import state_of

    state = state_of(queue_in(session, folder))
    if session.as_json:
        say_json(msgspec.json.encode(state))
        return
    if state.jobs:
        heads = ("COLUMN", "NAME", "STAGE", "PRIORITY", "FOR", "RUNS", "WHY")
        table(heads, [_row(line) for line in state.jobs])
    if state.halted is not None:
        note(f"halted {state.halted.told}: nothing begins; `aq resume` lifts it")
    for line in state.jobs:
        if line.edited:
            note(
                f"{line.column}/{line.file} was changed after its first run had begun, which counts"
            )
            note("  for nothing; `aq add` it under another name to have that done")
    for invalid in state.invalid:
        note(f"failed/{invalid.file} is no job: {'; '.join(invalid.errors)}")
    if not state.jobs and not state.invalid:
        note("nothing here yet; `aq add FILE` puts a job into the inbox, or copy it there")
    if state.new:
        note(f"in the inbox, and not looked at yet: {', '.join(state.new)}; `aq run` takes them in")


def _row(line: "Line") -> tuple[object, ...]:
    job = line.job
    why = line.waits or (f"runs in process {line.pid}" if line.pid else job.reason) or ""
    since = format_age(job.stage_since)
    return (line.column, job.name, job.stage, job.priority, since, job.runs, why)
