"""`aq clean`: remove what has ended long ago from a folder."""

from datetime import timedelta
from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder.target import HERE, queue_in
from gigafactory.cli.output.duration import Duration
from gigafactory.cli.output.text import note, say, say_json
from gigafactory.cli.session import Session, with_settings


@click.command()
@click.option("--older", type=Duration(), default="7d", help="Ended so long ago; 7d by default.")
@click.option("--failed", is_flag=True, help="Those too that ended without being shipped.")
@HERE
@with_settings
def clean(session: Session, *, older: float, failed: bool, folder: Path) -> None:
    """Remove the shipped jobs of a folder: file, state and log. What others wait for stays."""
    from gigafactory.folder.queue.clean import clean as clear_away

    gone = clear_away(queue_in(session, folder), timedelta(seconds=older), failed=failed)
    if session.as_json:
        say_json(msgspec.json.encode({"removed": [kept.job for kept in gone]}))
        return
    for kept in gone:
        say(f"{kept.job.id}  {kept.job.name}  removed")
    if not gone:
        note("there is nothing to remove")
