"""Rows and short descriptions of a job."""

from datetime import datetime

from gigafactory.domain.job.job import FINAL, RUNNING, Stage
from gigafactory.system.formatting import format_short_age
from gigafactory.tui.model.source import DashboardSnapshot
from gigafactory.tui.views import ViewContext
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import AMBER, DIM, RED, TextCell, format_countdown
from gigafactory.wire.jobs import JobView

MARKS = {
    Stage.BLOCKED: ("·", DIM),
    Stage.QUEUED: ("·", "cyan"),
    Stage.ASSIGNED: ("▸", "blue"),
    Stage.BUILDING: ("▸", "blue"),
    Stage.REVIEW: ("●", AMBER),
    Stage.TESTING: ("●", AMBER),
    Stage.SHIPPED: ("✓", "green"),
    Stage.FAILED: ("✗", RED),
    Stage.DEAD_LETTER: ("✗", RED),
    Stage.CANCELLED: ("-", DIM),
}
WIDE, NARROW = 120, 60
"""Wide terminals show optional columns; narrow ones shorten names."""


def matches_filter(context: ViewContext, job: JobView) -> bool:
    """Return whether a job matches the filter."""
    holder = job.lease.factory_id if job.lease else None
    return context.matches(
        *(job.name, job.title, job.id, job.product_id, job.repo, job.engine, job.stage, holder)
    )


def describe_state(snapshot: DashboardSnapshot, job: JobView, now: datetime) -> str:
    """Return the state of a job in a few words."""
    if job.lease is not None:
        ships = "ships on " if job.stage is Stage.TESTING else ""
        tool = f" · {job.engine}" if job.engine and not ships else ""
        return f"{ships}{job.lease.factory_id}{tool}"
    if job.stage is Stage.QUEUED and job.not_before is not None and job.not_before > now:
        return f"waits {format_countdown(job.not_before, now)}"
    words = {
        Stage.REVIEW: "needs review",
        Stage.TESTING: "ready to ship" if snapshot.needs_person(job) else "shipping requested",
        Stage.BLOCKED: f"waits for {len(job.deps)}" if job.deps else "blocked",
        Stage.QUEUED: "waits for its turn",
        Stage.FAILED: (job.result or "failed").replace("_", " "),
        Stage.CANCELLED: "cancelled",
    }
    if job.flags and job.stage not in FINAL:
        return job.flags[0].replace("_", " ")
    return words.get(job.stage, job.stage.replace("_", " "))


def job_row(context: ViewContext, job: JobView, *, indent: int = 0, key: str = "") -> Row:
    """Return a job as one row."""
    wide, needs_person = context.width >= WIDE, context.snapshot.needs_person(job)
    mark, state_colour = _mark(job, needs_person=needs_person)
    room = 12 if context.width < NARROW else 20
    text = context.row_text(
        TextCell("", indent),
        mark,
        TextCell(job.name, room + 8 if wide else room, "bold" if needs_person else ""),
        TextCell(job.title, None, DIM),
        TextCell(job.product_id, 14 if wide else 0, DIM),
        TextCell(job.priority, 8 if wide else 0, DIM),
        TextCell(
            describe_state(context.snapshot, job, context.now),
            room + 10 if wide else room,
            state_colour,
        ),
        TextCell(format_short_age(job.stage_since, context.now), 4, DIM, right=True),
    )
    return Row(text, key or job.id, job)


def job_card(context: ViewContext, job: JobView) -> list[Row]:
    """Return a job for a narrow column: its name, and below it state and title."""
    needs_person = context.snapshot.needs_person(job)
    mark, state_colour = _mark(job, needs_person=needs_person)
    name = context.row_text(
        mark,
        TextCell(job.name, None, "bold" if needs_person else ""),
        TextCell(format_short_age(job.stage_since, context.now), 4, DIM, right=True),
    )
    state = TextCell(
        f"{describe_state(context.snapshot, job, context.now)} · {job.title}",
        None,
        state_colour or DIM,
    )
    return [Row(name, job.id, job), Row(context.row_text(TextCell("", 1), state))]


def _mark(job: JobView, *, needs_person: bool) -> tuple[TextCell, str]:
    mark, colour = MARKS[job.stage]
    state_colour = colour if needs_person or job.stage in RUNNING or colour == RED else ""
    return TextCell(mark, 1, DIM if colour == AMBER and not needs_person else colour), state_colour
