"""`aq jobs`: list jobs."""

from typing import Any

import click

from gigafactory.cli.output.tables import show_jobs
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client.jobs import find
from gigafactory.domain.job.job import Priority, Stage
from gigafactory.wire.jobs import JobFilter


@click.command()
@click.option(
    "--stage",
    "-s",
    type=click.Choice([stage.value for stage in Stage]),
    multiple=True,
    help="Repeatable.",
)
@click.option("--repo", help="Only this repo.")
@click.option("--profile", help="Only this profile, any version.")
@click.option("--engine", help="Only this engine.")
@click.option("--factory", help="Only jobs leased by this factory.")
@click.option("--priority", type=click.Choice([priority.value for priority in Priority]))
@click.option("--parent", help="Only children of this job.")
@click.option("--text", "-t", help="Words or word prefixes in name or title.")
@click.option("--oldest", is_flag=True, help="Oldest first.")
@click.option("--limit", "-n", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Continue after the previous page.")
@for_fleet
def jobs(
    session: Session,
    *,
    stage: tuple[str, ...],
    oldest: bool,
    **filters: Any,  # noqa: ANN401 - the fields of JobFilter
) -> None:
    """List jobs of all products, or of the chosen one, newest first."""
    sort = "oldest" if oldest else "newest"
    wanted = JobFilter(stage=",".join(stage) or None, sort=sort, **filters)
    filtered = wanted != JobFilter(sort=wanted.sort, limit=wanted.limit)
    session.unscoped()
    show_jobs(session.client.fetch(find(wanted)), as_json=session.as_json, filtered=filtered)
