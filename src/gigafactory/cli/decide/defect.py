"""`aq defect`: something that was shipped was wrong after all."""

import click

from gigafactory.cli.output.text import say
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import defects
from gigafactory.domain.tracker.defect import Source


@click.command()
@click.argument("job")
@click.option("--revert", metavar="COMMIT", help="The commit that takes it back.")
@click.option("--ticket", metavar="ID", help="The bug ticket that tells of it.")
@click.option("--message", "-m", metavar="WORDS", help="What was wrong, in a few words.")
@for_fleet
def defect(
    session: Session, *, job: str, revert: str | None, ticket: str | None, message: str | None
) -> None:
    """Tell of a defect that a shipped job let through.

    It counts against the objective of escaped defects, once for each job. Factories find reverts
    of what was shipped by themselves, and bug tickets that name a job by its id are heard too.
    """
    given = {Source.REVERT: revert, Source.TICKET: ticket, Source.PERSON: message}
    named = [(source, words) for source, words in given.items() if words]
    if len(named) != 1:
        raise click.UsageError("name one of --revert, --ticket and --message")
    source, words = named[0]
    session.answer(
        defects.report(job, source, words), lambda found: say(f"{found.name}: noted, {words}")
    )
