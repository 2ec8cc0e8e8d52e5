"""`aq show`: details of one job."""

import click
from msgspec import UNSET

from gigafactory.cli.jobs.dag import show_rollup
from gigafactory.cli.output.events import event_line
from gigafactory.cli.output.runs import run_pairs
from gigafactory.cli.output.text import clock, pairs, plain, say, visible
from gigafactory.cli.session import Session, for_fleet
from gigafactory.client import jobs as calls
from gigafactory.client import jobs as composites
from gigafactory.system.formatting import format_age, format_size
from gigafactory.wire.jobs import JobView


@click.command()
@click.argument("job")
@click.option("--body", is_flag=True, help="Print the instructions too.")
@for_fleet
def show(session: Session, *, job: str, body: bool) -> None:
    """Show one job by id or name: its state, runs, events and possible actions."""
    include = ("manifest", "events", "runs", "artifacts", *(("body",) if body else ()))
    session.answer(calls.get(job, include=include), lambda view: _show(session, view))


def _show(session: Session, job: JobView) -> None:
    say(f"{plain(job.title)}\n")
    pairs(
        (
            ("id", job.id),
            ("name", job.name),
            ("product", job.product_id),
            ("stage", job.stage),
            ("since", f"{clock(job.stage_since)} ({format_age(job.stage_since)})"),
            ("result", job.result),
            ("reason", job.reason),
            ("flags", job.flags),
            ("factory", job.lease.factory_id if job.lease else None),
            ("engine", job.engine),
            ("priority", job.priority),
            ("repo", job.repo),
            ("profile", job.profile),
            ("needs", job.capabilities),
            ("part of", job.parent_id),
            ("phase", job.phase),
            ("deps", job.deps),
            ("lock", job.lock),
            ("attempts", job.attempts or None),
            (
                "checkpoint",
                f"{job.checkpoint.branch} at {job.checkpoint.commit}" if job.checkpoint else None,
            ),
            ("not before", clock(job.not_before) if job.not_before else None),
            ("submitted", f"{clock(job.created_at)} by {job.submitted_by}"),
            (
                "artifacts",
                [f"{each.name} ({format_size(each.size)})" for each in job.artifacts or ()],
            ),
            ("actions", job.actions),
        )
    )
    if job.kind == "composite":
        say("\nchildren")
        call = composites.dag(job.id)
        show_rollup(call.decode(session.client.fetch(call)))
    for run in job.runs or ():
        say(f"\nrun {run.number}, {run.step}")
        pairs(run_pairs(run))
    if job.events:
        say()
        for event in job.events:
            say(event_line(event))
    if job.body is not UNSET:
        lines = (line.removesuffix("\r") for line in job.body.split("\n"))
        say("\n".join(["", *map(visible, lines)]))
