"""The queue: what does not run yet, when it may, and why it does not."""

from gigafactory.domain.job.job import Stage
from gigafactory.system.formatting import format_short_age
from gigafactory.tui.views import Scene, heading, nothing, remark
from gigafactory.tui.views.jobs import WIDE, fits
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import AMBER, DIM, RED, Cell, countdown
from gigafactory.wire.jobs import JobView

EMPTY = "Nothing waits: every job runs, waits for you, or has ended."


def queue(scene: Scene) -> list[Row]:
    """Those that are held back, those that could begin, and those that wait for others."""
    waiting = [
        job
        for job in scene.seen.jobs
        if job.stage in {Stage.QUEUED, Stage.BLOCKED} and fits(scene, job)
    ]
    later = sorted(
        (job for job in waiting if _is_later(scene, job)), key=lambda job: str(job.not_before)
    )
    ready = [j for j in waiting if j.stage is Stage.QUEUED and j not in later]
    blocked = [j for j in waiting if j.stage is Stage.BLOCKED and j not in later]
    rows: list[Row] = []
    for title, jobs in (("BACK-OFF", later), ("READY", ready), ("BLOCKED", blocked)):
        if jobs:
            rows.append(heading(scene, f"{title} {len(jobs)}"))
            rows += [_row(scene, job, late=jobs is later) for job in jobs]
    total = sum(scene.seen.counts.get(stage, 0) for stage in (Stage.QUEUED, Stage.BLOCKED))
    if rows and total > len(waiting) and not scene.text:
        rows.append(remark(f"… and {total - len(waiting)} more; / finds them"))
    return rows or nothing(scene, EMPTY)


def _is_later(scene: Scene, job: JobView) -> bool:
    return job.not_before is not None and job.not_before > scene.now


def why(scene: Scene, job: JobView) -> str:
    """Why a job does not run yet: what held it back, or what it waits for."""
    told = scene.seen.why.get(job.id, "")
    if _is_later(scene, job) and job.reason:
        return f"{(job.result or 'held back').replace('_', ' ')}: {job.reason}"
    return told or job.reason or ("waits for other jobs" if job.deps else "")


def _row(scene: Scene, job: JobView, *, late: bool) -> Row:
    wide = scene.width >= WIDE
    left = f"in {countdown(job.not_before, scene.now)}" if job.not_before and late else ""
    stuck = RED if job.flags else DIM
    text = scene.line(
        Cell("·", 1, "cyan" if job.stage is Stage.QUEUED else DIM),
        Cell(job.name, 28 if wide else 20),
        Cell(left, 10 if late else 0, AMBER),
        Cell(why(scene, job), None, stuck),
        Cell(job.priority, 8 if wide else 0, DIM),
        Cell(format_short_age(job.created_at, scene.now), 4, DIM, right=True),
    )
    return Row(text, job.id, job)
