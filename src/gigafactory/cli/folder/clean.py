"""`aq clean`: remove old finished jobs from a folder."""

from datetime import timedelta
from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder.target import HERE, queue_in
from gigafactory.cli.output.duration import Duration
from gigafactory.cli.output.text import note, say, say_json
from gigafactory.cli.session import Session, with_settings


@click.command()
@click.option("--older", type=Duration(), default="7d", help="Minimum age; default: 7d.")
@click.option("--failed", is_flag=True, help="Also remove jobs that ended without shipping.")
@HERE
@with_settings
def clean(session: Session, *, older: float, failed: bool, folder: Path) -> None:
    """Remove shipped jobs of a folder: file, state and log. Dependencies of other jobs stay."""
    from gigafactory.folder.queue.clean import remove_ended as clean_folder

    removed = clean_folder(queue_in(session, folder), timedelta(seconds=older), failed=failed)
    if session.as_json:
        say_json(msgspec.json.encode({"removed": [record.job for record in removed]}))
        return
    for record in removed:
        say(f"{record.job.id}  {record.job.name}  removed")
    if not removed:
        note("nothing to remove")
