"""`aq submit`: submit job files, all or none."""

import click

from gigafactory.cli.exit_codes import Exit
from gigafactory.cli.jobs.check import format_fault, read_job
from gigafactory.cli.output.text import note, say, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import submissions as calls
from gigafactory.client.transport.call import ApiCall
from gigafactory.domain.errors import Invalid
from gigafactory.domain.manifest.manifest import JobFile
from gigafactory.wire.jobs import JobsView, JobView


@click.command()
@click.argument("files", nargs=-1, required=True)
@click.option("--parent", metavar="JOB", help="Submit as children of this composite.")
@click.option("--quiet", "-q", is_flag=True, help="Print only the ids.")
@for_fleet
def submit(session: Session, files: tuple[str, ...], *, parent: str | None, quiet: bool) -> int:
    """Submit job files; `-` reads one from stdin.

    Several files are one batch: all are accepted or none. Files are validated before sending. With
    --parent they become children of a composite; its unchanged children are kept.
    """
    read = _read_all(files)
    if read is None:
        return Exit.REFUSED

    def show(taken: tuple[JobView, ...]) -> None:
        if quiet:
            say("\n".join(job.id for job in taken))
            return
        table(("ID", "NAME", "STAGE"), [(job.id, job.name, job.stage) for job in taken])
        _advise(taken)

    if parent is not None:
        session.answer(calls.add_children(parent, read), lambda page: show(page.jobs))
    elif len(read) == 1:
        session.answer(calls.submit(read[0]), lambda job: show((job,)))
    else:
        batch: ApiCall[JobsView] = calls.submit_all(read)
        session.answer(batch, lambda page: show(page.jobs))
    return Exit.OK


def _read_all(files: tuple[str, ...]) -> list[JobFile] | None:
    """Return all files, or None after printing the errors of all of them."""
    read = []
    wrong = False
    for file in files:
        try:
            read.append(read_job(file))
        except Invalid as faulty:
            wrong = True
            for fault in faulty.faults:
                note(format_fault(file, fault))
    if wrong:
        note("aq: nothing was submitted")
    return None if wrong else read


def _advise(taken: tuple[JobView, ...]) -> None:
    stuck = [job.name for job in taken if "unroutable" in job.flags]
    if stuck:
        names = ", ".join(stuck)
        note(f"no factory can run {names} yet; `aq explain {stuck[0]}` shows what is missing")
    else:
        note(f"follow it with `aq logs -f {taken[0].name}`, or see `aq jobs`")
