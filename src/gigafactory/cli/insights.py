"""`aq insights`: what the runs of a folder came to."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from gigafactory.cli.duration import Duration
from gigafactory.cli.output import note, say, say_json, table
from gigafactory.cli.queue_folder import HERE, queue_in
from gigafactory.cli.session import Session, with_settings

if TYPE_CHECKING:
    from gigafactory.domain.insights import Insights, Rollup

USUAL = ("engine", "profile", "repo", "day")
ALL = (*USUAL, "factory", "product", "job")
HEADS = ("RUNS", "JOBS", "FIRST PASS", "TOKENS", "COST", "TIME", "RESULTS")


@click.command()
@click.option("--by", multiple=True, type=click.Choice(ALL), help="Repeatable.")
@click.option("--since", type=Duration(), help="Only the runs of so long: 7d.")
@HERE
@with_settings
def insights(session: Session, *, by: tuple[str, ...], since: float | None, folder: Path) -> None:
    """Add up the runs of a folder: results, tokens, cost and time, by what they have in common.

    By engine, profile, repo and day, if nothing else is asked for. FIRST PASS is the share of jobs
    whose first run came out well. A cost marked ~ is estimated in part; one marked + is of some
    runs only, as nobody knows what the others cost.
    """
    from gigafactory.domain.insights import By
    from gigafactory.domain.insights import insights as rolled_up

    jobs = queue_in(session, folder).look().values()
    start = None if since is None else datetime.now(UTC) - timedelta(seconds=since)
    runs = [run for kept in jobs for run in kept.runs]
    found = rolled_up(runs, [By(each) for each in by or USUAL], since=start)
    if session.as_json:
        say_json(msgspec.json.encode(found))
    elif found.total.runs:
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
