"""`aq run`: run the jobs of a folder, without a service."""

from pathlib import Path

import click
import msgspec

from gigafactory.cli.exit_codes import Exit
from gigafactory.cli.folder.target import PATH, require_inbox
from gigafactory.cli.output.text import note, say_json, table
from gigafactory.cli.session import Session, with_settings


@click.command()
@click.argument("folder", default=Path(), type=PATH)
@click.option("--once", is_flag=True, help="Exit when all jobs that can run are done.")
@with_settings
def run(session: Session, *, folder: Path, once: bool) -> Exit:
    """Run the jobs of a folder on this machine until stopped.

    AGENT_QUEUE_MAX limits concurrent jobs (3). SIGTERM or Ctrl-C finishes running jobs and takes no
    new ones; a second one saves the work and hands everything back. With --once the exit code says
    whether all jobs succeeded. With AQ_FLEET=1 it works like `aq factory run --inbox FOLDER`.
    """
    require_inbox(folder)
    if session.config.folder.fleet:
        from gigafactory.wiring.factory_process import run_factory

        run_factory(session.config, {"once": once, "inbox": folder})
        return Exit.OK
    from gigafactory.wiring.folder_process import run_folder

    done = run_folder(session.config, folder, once=once)
    jobs = [record.job for record in done.taken]
    if session.as_json:
        say_json(msgspec.json.encode({"taken": jobs, "invalid": done.invalid}))
    elif jobs:
        table(
            ("NAME", "STAGE", "RESULT", "WHY"),
            [(j.name, j.stage, j.result, j.reason) for j in jobs],
        )
    if not session.as_json:
        for file in done.invalid:
            note(f"failed/{file} is not a valid job; see {Path(file).stem}.errors.txt")
    return Exit.REFUSED if once and done.failed else Exit.OK
