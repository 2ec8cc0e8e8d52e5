"""The board: every job below its column, what waits for a person first."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gigafactory.domain.job.job import BOARD
from gigafactory.tui.views import Scene, heading, nothing, remark
from gigafactory.tui.views.jobs import fits, job_card, job_row
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import AMBER
from gigafactory.wire.jobs import JobView

ORDER = ("review", "testing", "building", "inbox", "failed", "shipped")
"""What people can do something about comes before what goes on by itself, and before its ends."""
TITLES = {
    "review": "REVIEW",
    "testing": "TESTING",
    "building": "BUILDING",
    "inbox": "INBOX",
    "failed": "FAILED",
    "shipped": "SHIPPED",
}
EACH_MAX = {"failed": 30, "shipped": 15}


COLUMN_EDGE = 3
"""A column of scrollbar, and one of room on either side."""


def board(scene: Scene) -> list[Row]:
    """All jobs in one list, column by column."""
    rows: list[Row] = []
    for column, jobs in _filled(scene).items():
        rows += _rows(scene, column, jobs, lambda job: [job_row(scene, job)])
    return rows or nothing(scene, scene.hints.no_jobs)


def columns(scene: Scene) -> dict[str, list[Row]]:
    """The same side by side, where there is room: the columns that have any jobs."""
    filled = _filled(scene)
    each = replace(scene, width=scene.width // max(1, len(filled)) - COLUMN_EDGE)
    return {
        column: _rows(each, column, jobs, lambda job: job_card(each, job))
        for column, jobs in filled.items()
    }


def _filled(scene: Scene) -> dict[str, list[JobView]]:
    found = {
        column: [job for job in scene.seen.jobs if job.stage in BOARD[column] and fits(scene, job)]
        for column in ORDER
    }
    return {column: jobs for column, jobs in found.items() if jobs}


def _rows(
    scene: Scene, column: str, jobs: Sequence[JobView], made: Callable[[JobView], list[Row]]
) -> list[Row]:
    # A filter narrows the jobs, and not the counts.
    known = 0 if scene.text else sum(scene.seen.counts.get(stage, 0) for stage in BOARD[column])
    count = max(known, len(jobs))
    style = f"bold {AMBER}" if any(map(scene.seen.is_turn, jobs)) else "bold"
    shown = jobs[: EACH_MAX.get(column, len(jobs))]
    rows = [heading(scene, f"{TITLES[column]} {count}", style=style)]
    for job in shown:
        rows += made(job)
    if count > len(shown):
        rows.append(remark(f"… and {count - len(shown)} more; / finds them"))
    return rows
