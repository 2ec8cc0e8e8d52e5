"""The queue view: jobs that do not run yet, and why."""

from gigafactory.domain.job.job import Stage
from gigafactory.system.formatting import format_short_age
from gigafactory.tui.views import ViewContext, empty_rows, heading_row, note_row
from gigafactory.tui.views.jobs import WIDE, matches_filter
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import AMBER, DIM, RED, TextCell, format_countdown
from gigafactory.wire.jobs import JobView

EMPTY = "The queue is empty: every job is running, needs you or has ended."


def queue_rows(context: ViewContext) -> list[Row]:
    """Return the jobs in back-off, the ready ones and the blocked ones."""
    waiting = [
        job
        for job in context.snapshot.jobs
        if job.stage in {Stage.QUEUED, Stage.BLOCKED} and matches_filter(context, job)
    ]
    delayed = sorted(
        (job for job in waiting if _is_delayed(context, job)), key=lambda job: str(job.not_before)
    )
    ready = [j for j in waiting if j.stage is Stage.QUEUED and j not in delayed]
    blocked = [j for j in waiting if j.stage is Stage.BLOCKED and j not in delayed]
    rows: list[Row] = []
    for title, jobs in (("BACK-OFF", delayed), ("READY", ready), ("BLOCKED", blocked)):
        if jobs:
            rows.append(heading_row(context, f"{title} {len(jobs)}"))
            rows += [_row(context, job, delayed=jobs is delayed) for job in jobs]
    total = sum(context.snapshot.counts.get(stage, 0) for stage in (Stage.QUEUED, Stage.BLOCKED))
    if rows and total > len(waiting) and not context.filter_text:
        rows.append(note_row(f"… and {total - len(waiting)} more; / finds them"))
    return rows or empty_rows(context, EMPTY)


def _is_delayed(context: ViewContext, job: JobView) -> bool:
    return job.not_before is not None and job.not_before > context.now


def wait_reason(context: ViewContext, job: JobView) -> str:
    """Return why a job does not run yet."""
    explanation = context.snapshot.wait_reasons.get(job.id, "")
    if _is_delayed(context, job) and job.reason:
        return f"{(job.result or 'delayed').replace('_', ' ')}: {job.reason}"
    return explanation or job.reason or ("waits for other jobs" if job.deps else "")


def _row(context: ViewContext, job: JobView, *, delayed: bool) -> Row:
    wide = context.width >= WIDE
    left = (
        f"in {format_countdown(job.not_before, context.now)}" if job.not_before and delayed else ""
    )
    stuck = RED if job.flags else DIM
    text = context.row_text(
        TextCell("·", 1, "cyan" if job.stage is Stage.QUEUED else DIM),
        TextCell(job.name, 28 if wide else 20),
        TextCell(left, 10 if delayed else 0, AMBER),
        TextCell(wait_reason(context, job), None, stuck),
        TextCell(job.priority, 8 if wide else 0, DIM),
        TextCell(format_short_age(job.created_at, context.now), 4, DIM, right=True),
    )
    return Row(text, job.id, job)
