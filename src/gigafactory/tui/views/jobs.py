"""A job in a line, and in a few words."""

from datetime import datetime

from gigafactory.domain.job.job import FINAL, RUNNING, Stage
from gigafactory.system.formatting import format_short_age
from gigafactory.tui.model.source import Snapshot
from gigafactory.tui.views import Scene
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import AMBER, DIM, RED, Cell, countdown
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
"""From so many columns on there is room for what is only good to know; below, for little."""


def fits(scene: Scene, job: JobView) -> bool:
    """Whether a job is looked for."""
    holder = job.lease.factory_id if job.lease else None
    return scene.has_words(
        *(job.name, job.title, job.id, job.product_id, job.repo, job.engine, job.stage, holder)
    )


def state(seen: Snapshot, job: JobView, now: datetime) -> str:
    """Where a job stands, in a few words."""
    if job.lease is not None:
        ships = "ships on " if job.stage is Stage.TESTING else ""
        tool = f" · {job.engine}" if job.engine and not ships else ""
        return f"{ships}{job.lease.factory_id}{tool}"
    if job.stage is Stage.QUEUED and job.not_before is not None and job.not_before > now:
        return f"again in {countdown(job.not_before, now)}"
    words = {
        Stage.REVIEW: "review it",
        Stage.TESTING: "ship it" if seen.is_turn(job) else "is to be shipped",
        Stage.BLOCKED: f"waits for {len(job.deps)}" if job.deps else "waits",
        Stage.QUEUED: "waits for its turn",
        Stage.FAILED: (job.result or "failed").replace("_", " "),
        Stage.DEAD_LETTER: "given up",
        Stage.CANCELLED: "cancelled",
    }
    if job.flags and job.stage not in FINAL:
        return job.flags[0].replace("_", " ")
    return words.get(job.stage, job.stage.replace("_", " "))


def job_row(scene: Scene, job: JobView, *, indent: int = 0, key: str = "") -> Row:
    """A job in a line."""
    wide, turn = scene.width >= WIDE, scene.seen.is_turn(job)
    mark, tint = _mark(job, turn=turn)
    room = 12 if scene.width < NARROW else 20
    about = scene.line(
        Cell("", indent),
        mark,
        Cell(job.name, room + 8 if wide else room, "bold" if turn else ""),
        Cell(job.title, None, DIM),
        Cell(job.product_id, 14 if wide else 0, DIM),
        Cell(job.priority, 8 if wide else 0, DIM),
        Cell(state(scene.seen, job, scene.now), room + 10 if wide else room, tint),
        Cell(format_short_age(job.stage_since, scene.now), 4, DIM, right=True),
    )
    return Row(about, key or job.id, job)


def job_card(scene: Scene, job: JobView) -> list[Row]:
    """A job in a narrow column: its name, and below it how it stands and what it is."""
    turn = scene.seen.is_turn(job)
    mark, tint = _mark(job, turn=turn)
    name = scene.line(
        mark,
        Cell(job.name, None, "bold" if turn else ""),
        Cell(format_short_age(job.stage_since, scene.now), 4, DIM, right=True),
    )
    stands = Cell(f"{state(scene.seen, job, scene.now)} · {job.title}", None, tint or DIM)
    return [Row(name, job.id, job), Row(scene.line(Cell("", 1), stands))]


def _mark(job: JobView, *, turn: bool) -> tuple[Cell, str]:
    """The sign before a job, and the colour of how it stands."""
    mark, colour = MARKS[job.stage]
    tint = colour if turn or job.stage in RUNNING or colour == RED else ""
    return Cell(mark, 1, DIM if colour == AMBER and not turn else colour), tint
