"""`aq recover`: take back what a runner that died has left."""

from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder.target import HERE, queue_in
from gigafactory.cli.output.text import note, say, say_json, staged
from gigafactory.cli.session import Session, with_settings


@click.command()
@HERE
@with_settings
def recover(session: Session, *, folder: Path) -> None:
    """Queue the jobs of a folder again whose runner is gone; their work so far is kept.

    A runner does this by itself, at its start and whenever it looks.
    """
    import asyncio

    from gigafactory.folder.duties.recovery import recover as take_back

    recovered = asyncio.run(take_back(queue_in(session, folder)))
    if session.as_json:
        say_json(msgspec.json.encode({"recovered": [kept.job for kept in recovered]}))
        return
    for kept in recovered:
        say(f"{kept.job.id}  {kept.job.name}  {staged(kept.job.stage)}")
    if not recovered:
        note("there is nothing to recover")
