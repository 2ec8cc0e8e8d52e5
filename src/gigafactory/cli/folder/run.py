"""`aq run`: work on a folder, with no service and no network."""

from pathlib import Path

import click
import msgspec

from gigafactory.cli.exit_codes import Exit
from gigafactory.cli.folder.target import PATH, require_inbox
from gigafactory.cli.output.text import note, say_json, table
from gigafactory.cli.session import Session, with_settings


@click.command()
@click.argument("folder", default=Path(), type=PATH)
@click.option("--once", is_flag=True, help="End when everything that could be taken is done.")
@with_settings
def run(session: Session, *, folder: Path, once: bool) -> Exit:
    """Take the jobs of a folder and run them on this machine, until told to stop.

    AGENT_QUEUE_MAX says how many at once (3). SIGTERM or Ctrl-C lets what runs come to its end and
    takes nothing new; a second one hands everything back at once, with its work saved. With --once
    the exit code tells whether all of them came out well. With AQ_FLEET=1 it does what `aq factory
    run --inbox FOLDER` does.
    """
    require_inbox(folder)
    if session.config.folder.fleet:
        from gigafactory.wiring.factory_process import run_factory

        run_factory(session.config, {"once": once, "inbox": folder})
        return Exit.OK
    from gigafactory.wiring.folder_process import run_folder

    done = run_folder(session.config, folder, once=once)
    jobs = [kept.job for kept in done.taken]
    if session.as_json:
        say_json(msgspec.json.encode({"taken": jobs, "invalid": done.invalid}))
    elif jobs:
        table(
            ("NAME", "STAGE", "RESULT", "WHY"),
            [(j.name, j.stage, j.result, j.reason) for j in jobs],
        )
    if not session.as_json:
        for file in done.invalid:
            note(f"failed/{file} is no job; see {Path(file).stem}.errors.txt beside it")
    return Exit.REFUSED if once and done.failed else Exit.OK
