"""`aq defect`: report a defect of a shipped job."""

import click

from gigafactory.cli.output.text import say
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import defects
from gigafactory.domain.tracker.defect import DefectSource


@click.command()
@click.argument("job")
@click.option("--revert", metavar="COMMIT", help="The commit that reverts it.")
@click.option("--ticket", metavar="ID", help="The bug ticket.")
@click.option("--message", "-m", metavar="TEXT", help="What is wrong, in a few words.")
@for_fleet
def defect(
    session: Session, *, job: str, revert: str | None, ticket: str | None, message: str | None
) -> None:
    """Report a defect of a shipped job.

    It counts against the objective of escaped defects, once per job. Reverts of shipped work and
    bug tickets that name a job by id are found automatically.
    """
    given = {DefectSource.REVERT: revert, DefectSource.TICKET: ticket, DefectSource.PERSON: message}
    named = [(source, words) for source, words in given.items() if words]
    if len(named) != 1:
        raise click.UsageError("name one of --revert, --ticket and --message")
    source, words = named[0]
    session.answer(
        defects.report(job, source, words),
        lambda job_view: say(f"{job_view.name}: defect recorded: {words}"),
    )
