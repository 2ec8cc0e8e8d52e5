"""The board: every job below its column, what waits for a person first."""

from gigafactory.domain.job import BOARD
from gigafactory.tui.rows import Row
from gigafactory.tui.text import AMBER
from gigafactory.tui.views import Scene, heading, nothing, remark
from gigafactory.tui.views.jobs import fits, job_row

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


def board(scene: Scene) -> list[Row]:
    """All jobs, column by column."""
    rows: list[Row] = []
    for column in ORDER:
        stages = BOARD[column]
        jobs = [job for job in scene.seen.jobs if job.stage in stages and fits(scene, job)]
        if not jobs:
            continue
        # A filter narrows the jobs, and not the counts.
        known = 0 if scene.text else sum(scene.seen.counts.get(stage, 0) for stage in stages)
        count = max(known, len(jobs))
        style = f"bold {AMBER}" if any(map(scene.seen.is_turn, jobs)) else "bold"
        rows.append(heading(scene, f"{TITLES[column]} {count}", style=style))
        shown = jobs[: EACH_MAX.get(column, len(jobs))]
        rows += [job_row(scene, job) for job in shown]
        if count > len(shown):
            rows.append(remark(f"… and {count - len(shown)} more; / finds them"))
    return rows or nothing(scene, scene.hints.no_jobs)
