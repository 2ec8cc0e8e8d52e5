"""`aq recover`: queue jobs of a dead runner again."""

from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder.target import HERE, queue_in
from gigafactory.cli.output.text import colour_stage, note, say, say_json
from gigafactory.cli.session import Session, with_settings


@click.command()
@HERE
@with_settings
def recover(session: Session, *, folder: Path) -> None:
    """Queue jobs again whose runner died; their work is kept.

    A runner does this automatically.
    """
    import asyncio

    from gigafactory.folder.duties.recovery import recover as recover_jobs

    recovered = asyncio.run(recover_jobs(queue_in(session, folder)))
    if session.as_json:
        say_json(msgspec.json.encode({"recovered": [record.job for record in recovered]}))
        return
    for record in recovered:
        say(f"{record.job.id}  {record.job.name}  {colour_stage(record.job.stage)}")
    if not recovered:
        note("nothing to recover")
