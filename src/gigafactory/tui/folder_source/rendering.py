"""Rendering of a folder queue as the records that the dashboard shows."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec.structs import replace

from gigafactory.api.render import jobs as render
from gigafactory.domain.fleet.factory import Pressure
from gigafactory.domain.job.job import Stage
from gigafactory.domain.job.lifecycle import actions_of
from gigafactory.domain.submission.submission import DEP_FAILED
from gigafactory.folder.queue.claim import Claim
from gigafactory.folder.queue.record import JobRecord
from gigafactory.folder.queue.status import BoardLine, FolderStatus
from gigafactory.tui.model.source import DashboardSnapshot
from gigafactory.wire.admin import AttentionItemView
from gigafactory.wire.fleet import FactoryView
from gigafactory.wire.jobs import JobView
from gigafactory.wire.runs import RunView

WAITING = frozenset({Stage.QUEUED, Stage.BLOCKED})
DIED = "it ended unexpectedly; `aq run` or `aq recover` continues its jobs"


def snapshot(
    state: FolderStatus, claims: Iterable[Claim], draining: frozenset[int], *, now: datetime
) -> DashboardSnapshot:
    """Return a snapshot of the whole folder."""
    runners = tuple(_render_runner(claim, draining=claim.pid in draining) for claim in claims)
    return DashboardSnapshot(
        jobs=tuple(map(render_job, state.jobs)),
        counts=Counter(line.job.stage for line in state.jobs),
        factories=runners,
        attention=(*_decision_items(state), *_problem_items(state, runners, now)),
        wait_reasons={line.job.id: line.waits for line in state.jobs if line.waits},
    )


def runner_name(pid: int) -> str:
    """Return the display name of a runner process."""
    return f"runner {pid}"


def _render_runner(claim: Claim, *, draining: bool) -> FactoryView:
    alive = claim.alive
    return FactoryView(
        id=runner_name(claim.pid),
        instance_id="",
        cost_class=0,
        sandbox=None,
        pressure=Pressure(),
        online=alive,
        health=1.0 if alive else 0.0,
        draining=draining,
        streaming=False,
        last_seen=claim.at,
        enrolled_at=claim.at,
        products=(),
        os=None,
        labels=(),
        capabilities=(),
        engines={},
        slots=0,
        repos=(),
        version=None,
    )


def render_job(line: BoardLine) -> JobView:
    """Return a job for display, with the runner process as its factory."""
    view = render.render_job(line.job)
    if view.lease is None or not line.pid:
        return view
    return replace(view, lease=replace(view.lease, factory_id=runner_name(line.pid)))


def render_runs(record: JobRecord) -> tuple[RunView, ...]:
    """Return the runs of a job, newest last."""
    return tuple(map(render.render_run, record.runs))


def explain(line: BoardLine) -> str:
    """Explain a job's state, or why it does not run yet."""
    if line.waits:
        return line.waits
    if line.pid:
        return f"process {line.pid} runs it"
    reasons = {
        Stage.QUEUED: "it waits for a runner; start one with `aq run`",
        Stage.REVIEW: "it waits for a review",
        Stage.TESTING: "it is ready to ship and waits for a decision",
    }
    return reasons.get(line.job.stage, line.job.reason or "")


def _decision_items(state: FolderStatus) -> Iterator[AttentionItemView]:
    """Yield attention items that need a decision."""
    if state.halted is not None:
        title, since = "the folder is halted", state.halted.at
        yield _item("halted", "*", title, state.halted.summary, since, ("resume",))
    for stage, kind, usual in (
        (Stage.REVIEW, "review", "waits for a review"),
        (Stage.TESTING, "ship", "ready to ship"),
    ):
        for line in state.jobs:
            if line.job.stage is stage and line.job.ship is None:
                yield _job_item(line, kind, line.job.reason or usual)


def _problem_items(
    state: FolderStatus, runners: Iterable[FactoryView], now: datetime
) -> Iterator[AttentionItemView]:
    """Yield attention items about failures, stuck jobs and files."""
    for line in state.jobs:
        if line.job.stage in {Stage.FAILED, Stage.DEAD_LETTER}:
            yield _job_item(line, "failed", line.job.reason or "failed")
        elif line.job.stage in WAITING and line.job.flags:
            kind = DEP_FAILED if DEP_FAILED in line.job.flags else line.job.flags[0]
            yield _job_item(line, kind, line.waits or "")
    for file in state.invalid:
        name, reason = file.file.removesuffix(".md"), "; ".join(file.errors)
        yield _item(
            "invalid", name, f"{file.file} is not a valid job file", reason, now, ("requeue",)
        )
    for runner in runners:
        if not runner.online:
            yield _item("factory_offline", runner.id, runner.id, DIED, runner.enrolled_at)
    if state.new:
        names = f"{', '.join(state.new)}: `aq run` submits them"
        yield _item("new", "inbox", f"{len(state.new)} new in the inbox", names, now)


def _job_item(line: BoardLine, kind: str, reason: str) -> AttentionItemView:
    job = line.job
    return AttentionItemView(
        kind=kind,
        subject=job.id,
        title=job.title,
        since=job.stage_since,
        reason=reason,
        actions=actions_of(job),
        product_id=job.product_id,
    )


def _item(
    kind: str, subject: str, title: str, reason: str, since: datetime, can: tuple[str, ...] = ()
) -> AttentionItemView:
    return AttentionItemView(
        kind=kind,
        subject=subject,
        title=title,
        since=since,
        reason=reason,
        actions=can,
        product_id=None,
    )
