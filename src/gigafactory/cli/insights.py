"""`aq insights`: what the runs of a fleet, or of a folder, came to."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from gigafactory.cli.duration import Duration
from gigafactory.cli.output import note, say, say_json, table
from gigafactory.cli.queue_folder import FOLDER, chosen, queue_in
from gigafactory.cli.session import Session, for_fleet
from gigafactory.domain.errors import NotFound

if TYPE_CHECKING:
    from gigafactory.domain.insights import Insights, Rollup

USUAL = ("engine", "profile", "repo", "day")
ALL = (*USUAL, "factory", "product", "composite", "job")
HEADS = ("RUNS", "JOBS", "FIRST PASS", "TOKENS", "COST", "TIME", "RESULTS")


@click.command()
@click.argument("job", required=False)
@click.option("--by", multiple=True, type=click.Choice(ALL), help="Repeatable.")
@click.option("--since", type=Duration(), help="Only the runs of so long: 7d.")
@FOLDER
@for_fleet
def insights(
    session: Session,
    *,
    job: str | None,
    by: tuple[str, ...],
    since: float | None,
    folder: Path | None,
) -> None:
    """Add up runs: results, tokens, cost and time, by what they have in common.

    By engine, profile, repo and day, if nothing else is asked for; of the product that is set, or
    of all that the token covers. With a JOB, of that job or of a composite's children alone; --by
    job needs one. In a fleet --since counts whole days (UTC), and runs count once they have ended.
    FIRST PASS is the share of jobs whose first run came out well. A cost marked ~ is estimated in
    part; one marked + is of some runs only, as nobody knows what the others cost.
    """
    start = None if since is None else datetime.now(UTC) - timedelta(seconds=since)
    if (queue := chosen(session, folder)) is not None:
        _of_folder(session, queue, job, by, start)
        return
    from gigafactory.client import fleet

    session.unscoped()
    day = start.date() if start is not None else None
    call = fleet.insights(by or USUAL, since=day, job=job)
    session.answer(call, lambda found: _told(found, since=start))


def _of_folder(
    session: Session, folder: Path, job: str | None, by: tuple[str, ...], start: datetime | None
) -> None:
    from gigafactory.domain.insights import By
    from gigafactory.domain.insights import insights as rolled_up

    known = queue_in(session, folder).look().values()
    meant = [kept for kept in known if job in {None, kept.job.id, kept.job.name}]
    if job is not None and not meant:
        raise NotFound("job", job)
    runs = [run for kept in meant for run in kept.runs]
    found = rolled_up(runs, [By(each) for each in by or USUAL], since=start)
    if session.as_json:
        say_json(msgspec.json.encode(found))
    else:
        _told(found, since=start)


def _told(found: "Insights", *, since: datetime | None) -> None:
    if found.total.runs:
        _show(found)
    else:
        note("nothing has run yet" if since is None else "nothing has run since then")


def _show(found: "Insights") -> None:
    for by, groups in found.by.items():
        table((by.upper(), *HEADS), [(one.group, *_cells(one)) for one in groups])
        say()
    table(("TOTAL", *HEADS), [("", *_cells(found.total))])


def _cells(one: "Rollup") -> tuple[object, ...]:
    from gigafactory.domain.quantity import format_duration, format_usd

    share = "" if one.first_pass is None else f"{one.first_pass:.0%}"
    tokens = one.tokens_in + one.tokens_cached + one.tokens_cache_write + one.tokens_out
    marks = ("~" if one.estimated else "") + ("+" if one.unmetered else "")
    cost = f"${format_usd(one.cost_nano_usd)}{marks}" if one.unmetered < one.runs else ""
    lasted = format_duration(timedelta(seconds=round(one.wall_sec)))
    results = ", ".join(f"{name} {count}" for name, count in one.results.items())
    if one.running:
        results += f"{', ' if results else ''}running {one.running}"
    return (one.runs, one.jobs, share, tokens, cost, lasted, results)
