"""The board view: jobs by column, those that need a person first."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gigafactory.domain.job.job import BOARD
from gigafactory.tui.views import ViewContext, empty_rows, heading_row, note_row
from gigafactory.tui.views.jobs import job_card, job_row, matches_filter
from gigafactory.tui.widgets.rows import Row
from gigafactory.tui.widgets.text import AMBER
from gigafactory.wire.jobs import JobView

ORDER = ("review", "testing", "building", "inbox", "failed", "shipped")
"""Columns that need a person come first, then active ones, then finished ones."""
TITLES = {
    "review": "REVIEW",
    "testing": "TESTING",
    "building": "BUILDING",
    "inbox": "INBOX",
    "failed": "FAILED",
    "shipped": "SHIPPED",
}
JOBS_MAX = {"failed": 30, "shipped": 15}
COLUMN_MARGIN = 3
"""One column for the scrollbar and one of margin on either side."""


def board_rows(context: ViewContext) -> list[Row]:
    """Return all jobs as one list, column by column."""
    rows: list[Row] = []
    for column, jobs in _jobs_by_column(context).items():
        rows += _column_rows(context, column, jobs, lambda job: [job_row(context, job)])
    return rows or empty_rows(context, context.hints.no_jobs)


def board_columns(context: ViewContext) -> dict[str, list[Row]]:
    """Return the rows of each column that has jobs, for display side by side."""
    filled = _jobs_by_column(context)
    each = replace(context, width=context.width // max(1, len(filled)) - COLUMN_MARGIN)
    return {
        column: _column_rows(each, column, jobs, lambda job: job_card(each, job))
        for column, jobs in filled.items()
    }


def _jobs_by_column(context: ViewContext) -> dict[str, list[JobView]]:
    columns = {
        column: [
            job
            for job in context.snapshot.jobs
            if job.stage in BOARD[column] and matches_filter(context, job)
        ]
        for column in ORDER
    }
    return {column: jobs for column, jobs in columns.items() if jobs}


def _column_rows(
    context: ViewContext,
    column: str,
    jobs: Sequence[JobView],
    render: Callable[[JobView], list[Row]],
) -> list[Row]:
    # The counts do not know the filter.
    shown_jobs = (
        0
        if context.filter_text
        else sum(context.snapshot.counts.get(stage, 0) for stage in BOARD[column])
    )
    count = max(shown_jobs, len(jobs))
    style = f"bold {AMBER}" if any(map(context.snapshot.needs_person, jobs)) else "bold"
    visible = jobs[: JOBS_MAX.get(column, len(jobs))]
    rows = [heading_row(context, f"{TITLES[column]} {count}", style=style)]
    for job in visible:
        rows += render(job)
    if count > len(visible):
        rows.append(note_row(f"… and {count - len(visible)} more; / finds them"))
    return rows
