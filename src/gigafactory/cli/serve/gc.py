"""`aq gc`: garbage collection."""

from pathlib import Path

import click
import msgspec

from gigafactory.cli.folder.target import FOLDER, folder_target, queue_in
from gigafactory.cli.output.text import note, plain, say, say_json
from gigafactory.cli.session import Session, with_settings


@click.command()
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@FOLDER
@with_settings
def gc(session: Session, *, dry_run: bool, folder: Path | None) -> None:
    """Remove files and branches that no job needs any more, here and on remotes.

    Removes stale worktrees, branches of shipped jobs, work in progress of jobs that ended long ago,
    old engine homes, logs, quarantined results and mirrors. Keeps unsaved work, branches of
    unfinished jobs and everything of a running job. A running factory does this automatically.
    """
    from gigafactory.wiring.gc import collect_factory, collect_folder

    queue = folder_target(session, folder)
    if queue is not None:
        sweep = collect_folder(session.config, queue_in(session, queue), dry_run=dry_run)
    else:
        sweep = collect_factory(session.config, dry_run=dry_run)
    if session.as_json:
        say_json(msgspec.json.encode(sweep.to_json()))
        return
    for each in sweep.swept:
        (note if each.did == "kept" else say)(plain(each.describe(dry=dry_run)))
    for line in sweep.notes:
        note(plain(line))
    if summed := sweep.summary():
        say(summed)
    else:
        note("nothing to remove")
