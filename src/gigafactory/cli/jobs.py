"""`aq jobs`: what there is, and where each job stands."""

import click
import msgspec

from gigafactory.cli.output import age, note, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client.answers import Job, Jobs
from gigafactory.client.jobs import Filter, find
from gigafactory.domain.job import Priority, Stage


@click.command()
@click.option(
    "--stage",
    "-s",
    type=click.Choice([stage.value for stage in Stage]),
    multiple=True,
    help="Repeatable.",
)
@click.option("--repo", help="Of this repo.")
@click.option("--profile", help="With this profile, of any version.")
@click.option("--engine", help="For or on this engine.")
@click.option("--factory", help="Leased by this factory.")
@click.option("--priority", type=click.Choice([priority.value for priority in Priority]))
@click.option("--parent", help="Children of this job.")
@click.option("--text", "-t", help="Words that begin words of the name or title.")
@click.option("--oldest", is_flag=True, help="Oldest first.")
@click.option("--limit", "-n", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Go on after the page before.")
@for_fleet
def jobs(session: Session, *, stage: tuple[str, ...], oldest: bool, **filters: object) -> None:
    """List jobs, newest first; of all products, unless one is chosen."""
    sort = "oldest" if oldest else "newest"
    wanted = msgspec.convert({"stage": ",".join(stage) or None, "sort": sort, **filters}, Filter)
    filtered = wanted != Filter(sort=wanted.sort, limit=wanted.limit)
    session.unscoped()
    session.answer(find(wanted), lambda page: _show(page, filtered=filtered))


def _show(page: Jobs, *, filtered: bool) -> None:
    if not page.jobs:
        note(
            "no job is like that; `aq jobs` without filters lists all"
            if filtered
            else "there are no jobs yet; hand one in with `aq submit FILE.md`"
        )
        return
    heads = ("ID", "NAME", "STAGE", "PRIORITY", "WHERE", "SINCE", "TITLE")
    table(heads, [_row(job) for job in page.jobs])
    if page.next_cursor:
        note(f"there are more: --cursor {page.next_cursor}")


def _row(job: Job) -> tuple[object, ...]:
    where = "@".join(filter(None, (job.engine, job.lease.factory_id if job.lease else None)))
    title = f"{job.title}  [{', '.join(job.flags)}]" if job.flags else job.title
    return (job.id, job.name, job.stage, job.priority, where, age(job.stage_since), title)
