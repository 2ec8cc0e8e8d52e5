"""`aq gc`: remove what no run needs any more."""

from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder.target import FOLDER, chosen, queue_in
from gigafactory.cli.output.text import note, plain, say, say_json
from gigafactory.cli.session import Session, with_settings


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@FOLDER
@with_settings
def gc(session: Session, *, dry_run: bool, folder: Path | None) -> None:
    """Remove what runs have left on this machine and at its remotes, and nobody needs any more.

    Stale worktrees, branches of shipped jobs, work in progress of jobs that ended long ago, old
    homes, logs, quarantined results and mirrors. Never what is saved nowhere else, never a branch
    of a job that has not ended, never anything of a run that goes on. A factory that works does
    this by itself.
    """
    from gigafactory.wiring.gc import sweep_factory, sweep_folder

    queue = chosen(session, folder)
    if queue is not None:
        sweep = sweep_folder(session.config, queue_in(session, queue), dry_run=dry_run)
    else:
        sweep = sweep_factory(session.config, dry_run=dry_run)
    if session.as_json:
        say_json(msgspec.json.encode(sweep.told()))
        return
    for each in sweep.swept:
        (note if each.did == "kept" else say)(plain(each.line(dry=dry_run)))
    for line in sweep.notes:
        note(plain(line))
    if summed := sweep.summed_up():
        say(summed)
    else:
        note("nothing to remove")
