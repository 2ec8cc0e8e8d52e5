"""`aq archive`: archived jobs, one compressed file each."""

import sys
import zlib

import click

from gigafactory.cli.output.text import clock, note, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import artifacts as calls
from gigafactory.system.formatting import format_size
from gigafactory.wire.files import ArchiveView

GZIP = 31
"""Window bits that select the gzip format in zlib."""


@click.group()
def archive() -> None:
    """List and read archived jobs."""


@archive.command("list")
@click.option("--limit", "-n", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Continue after the previous page.")
@for_fleet
def list_(session: Session, *, limit: int, cursor: str | None) -> None:
    """List archived jobs, oldest first."""
    session.answer(calls.archived_jobs(limit=limit, cursor=cursor), _show)


def _show(page: ArchiveView) -> None:
    heads = ("ID", "STAGE", "FINISHED", "ARCHIVED", "SIZE", "NAME")
    rows = [
        (j.job_id, j.stage, clock(j.finished_at), clock(j.archived_at), format_size(j.size), j.name)
        for j in page.jobs
    ]
    if rows:
        table(heads, rows)
    else:
        note("the archive is empty")
    if page.next_cursor:
        note(f"more: --cursor {page.next_cursor}")


@archive.command("show")
@click.argument("job")
@for_fleet
def show(session: Session, *, job: str) -> None:
    """Print an archived job by id, as JSON lines.

    Includes the job, manifest, events, runs, logs, and artifacts as base64.
    """
    unpacker = zlib.decompressobj(wbits=GZIP)
    for piece in session.client.pieces(calls.archived_job(job)):
        sys.stdout.buffer.write(unpacker.decompress(piece))
    sys.stdout.buffer.write(unpacker.flush())
    sys.stdout.buffer.flush()
