"""`aq insights`: results, cost and time of runs."""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec.structs import replace

from gigafactory.cli.folder.target import FOLDER, folder_target, queue_in
from gigafactory.cli.output.duration import Duration
from gigafactory.cli.output.text import note, say, say_json, table
from gigafactory.cli.session import Session, for_fleet
from gigafactory.domain.elapsed import format_elapsed
from gigafactory.domain.errors import NotFound
from gigafactory.domain.manifest.units import parse_usd
from gigafactory.system.formatting import format_money

if TYPE_CHECKING:
    from gigafactory.wire.insights import AdviceView, InsightsView, ObjectiveView, RunRollupView

DEFAULT_GROUPS = ("engine", "profile", "repo", "day")
ALL = (*DEFAULT_GROUPS, "factory", "product", "composite", "job")
ADVICE_MAX = 20
WIDE = 120
"""Terminals narrower than this omit some columns."""


@click.command()
@click.argument("job", required=False)
@click.option("--by", multiple=True, type=click.Choice(ALL), help="Repeatable.")
@click.option("--since", type=Duration(), help="Only runs of this period: 7d.")
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
    """Add up runs: results, tokens, cost and time by group.

    Groups are engine, profile, repo and day by default; runs are those of the chosen product, or of
    all products of the token. With JOB: only that job, or the children of a composite; --by job
    needs it. In a fleet, --since counts whole days (UTC), and only finished runs count.

    FIRST PASS is the share of jobs whose first run passed. A cost with ~ is partly estimated; a
    cost with + excludes runs of unknown cost. A fleet also shows shipped jobs, escaped defects, the
    cost of a shipped job, the average wait since the coordinator started, the best engine by
    first-attempt success over three months, and each objective with its remaining error budget.
    """
    start = None if since is None else datetime.now(UTC) - timedelta(seconds=since)
    if (queue := folder_target(session, folder)) is not None:
        _print_folder(session, queue, job, by, start)
        return
    from gigafactory.client import fleet

    session.unscoped()
    day = start.date() if start is not None else None
    call = fleet.insights(by or DEFAULT_GROUPS, since=day, job=job)
    session.answer(call, lambda insights: _print(insights, since=start, fleet=job is None))


def _print_folder(
    session: Session, folder: Path, job: str | None, by: tuple[str, ...], start: datetime | None
) -> None:
    from gigafactory.domain.insights.engine_comparison import compare_engines
    from gigafactory.domain.insights.observation import observe_first_tries
    from gigafactory.domain.insights.run_rollup import GroupBy, summarize_runs
    from gigafactory.wire.insights import InsightsView

    records = queue_in(session, folder).look().values()
    selected = [record for record in records if job in {None, record.job.id, record.job.name}]
    if job is not None and not selected:
        raise NotFound("job", job)
    runs = [run for record in selected for run in record.runs]
    wanted = [GroupBy(each) for each in by or DEFAULT_GROUPS]
    summary = summarize_runs(runs, wanted, since=start)
    if job is None:
        summary = replace(summary, advice=tuple(compare_engines(observe_first_tries(runs), wanted)))
    insights = InsightsView.from_domain(summary)
    if session.as_json:
        say_json(msgspec.json.encode(insights))
    else:
        _print(insights, since=start, fleet=False)


def _print(insights: "InsightsView", *, since: datetime | None, fleet: bool) -> None:
    if insights.total.runs:
        _show(insights, fleet=fleet)
    else:
        note("nothing has run yet" if since is None else "nothing has run since then")
    _show_objectives(insights.objectives)


def _show(insights: "InsightsView", *, fleet: bool) -> None:
    heads = [*cells(insights.total, fleet=fleet)]
    for by, groups in insights.by.items():
        rows = [(one.group, *cells(one, fleet=fleet).values()) for one in groups]
        table((by.upper(), *heads), rows)
        say()
    table(("TOTAL", *heads), [("", *cells(insights.total, fleet=fleet).values())])
    if insights.advice:
        say()
        first_advice = insights.advice[:ADVICE_MAX]
        table(("FOR", "WHICH ENGINE"), [(_work(one), one.says) for one in first_advice])
        if more := len(insights.advice) - len(first_advice):
            note(f"… and {more} more with fewer first attempts; --json lists all")


def _work(one: "AdviceView") -> str:
    return "all work" if one.by == one.group == "all" else f"{one.by} {one.group}"


def _show_objectives(objectives: "Sequence[ObjectiveView]") -> None:
    if objectives:
        say()
        heads = ("OBJECTIVE", "MET", "BUDGET LEFT", "PROMISE", "MEASURED")
        table(heads, [_objective_row(one) for one in objectives])


def _objective_row(one: "ObjectiveView") -> tuple[object, ...]:
    share, left = one.share, one.left
    met = "not measured" if share is None else f"{100 - share * 100:.4g}%"
    counted = f"{one.wrong} of {one.of} failed, " if one.of else ""
    return (
        one.objective,
        met,
        "" if left is None else f"{left:.0%}",
        one.promise,
        f"{counted}{one.window}",
    )


def cells(one: "RunRollupView", *, fleet: bool) -> dict[str, object]:
    """Return the columns by header; single jobs have no shipping and wait columns."""
    marks = ("~" if one.estimated else "") + ("+" if one.unmetered else "")
    per_shipped = one.cost_of_shipped_usd
    mean_wait = one.wait_sec / one.waits if one.waits else None
    results = ", ".join(f"{name} {count}" for name, count in one.results.items())
    if one.running:
        results += f"{', ' if results else ''}running {one.running}"
    columns: dict[str, object] = {
        "RUNS": one.runs,
        "JOBS": one.jobs,
        "SHIPPED": one.shipped,
        "ESCAPED": one.escaped,
        "FIRST PASS": "" if one.first_pass is None else f"{one.first_pass:.0%}",
        "WAIT": "" if mean_wait is None else format_elapsed(mean_wait),
        "TOKENS": one.tokens_in + one.tokens_cached + one.tokens_cache_write + one.tokens_out,
        "COST": f"{format_money(one.cost_nano_usd)}{marks}" if one.unmetered < one.runs else "",
        "A SHIPPED ONE": per_shipped and format_money(parse_usd(per_shipped), rounded=True),
        "TIME": format_elapsed(one.wall_sec),
        "RESULTS": results,
    }
    left_out = () if fleet else ("SHIPPED", "ESCAPED", "WAIT", "A SHIPPED ONE")
    narrow = () if _wide() else ("JOBS", "ESCAPED", "TOKENS", "TIME")
    return {head: cell for head, cell in columns.items() if head not in {*left_out, *narrow}}


def _wide() -> bool:
    return not sys.stdout.isatty() or os.get_terminal_size(sys.stdout.fileno()).columns >= WIDE
