"""Logs and diffs of the jobs of a folder."""

import time
from collections.abc import Iterator
from pathlib import Path

from gigafactory.domain.errors import NotFound
from gigafactory.domain.job.diff import WorkDiff, read_diff
from gigafactory.folder.queue.store import FolderQueue, leases_of
from gigafactory.system.file_chunks import read_chunk


def diff_of(queue: FolderQueue, reference: str) -> WorkDiff:
    """Return the diff of the newest run that has one.

    Raises NotFound if there is none, Invalid if its file is damaged.
    """
    with queue.open() as locked:
        record = locked.lookup(reference)
    try:
        return read_diff(queue.board.diff(record.key).read_bytes())
    except FileNotFoundError:
        hint = "none of its runs has changed a repo, or it has not run yet"
        raise NotFound("diff of the job", record.job.name, hint) from None


LOOKS_EVERY_S = 0.2


def pieces(
    queue: FolderQueue, reference: str, *, run: str | None, tail: int | None, follow: bool
) -> Iterator[bytes]:
    """Yield the log of a job, or of one of its runs; with `follow`, until no run is active.

    Raises NotFound.
    """
    with queue.open() as locked:
        record = locked.lookup(reference)
    path = queue.board.log(record.key) if run is None else _log_of_run(queue, record.job.id, run)
    offset = max(0, path.stat().st_size - tail) if tail is not None and path.exists() else 0
    while True:
        now = queue.look().get(record.job.id)
        live = now is not None and bool(leases_of(now.job))
        while chunk := read_chunk(path, offset):
            offset += len(chunk)
            yield chunk
        if not follow or not live:
            return
        time.sleep(LOOKS_EVERY_S)


def _log_of_run(queue: FolderQueue, job_id: str, wanted: str) -> Path:
    runs = queue.look()[job_id].runs
    run_found = next((run for run in runs if wanted in {run.id, str(run.number)}), None)
    if run_found is None:
        numbers = ", ".join(str(run.number) for run in runs)
        raise NotFound("run", wanted, f"there are {numbers}" if numbers else "it has not run yet")
    return queue.board.data_dir.log_file(run_found.id)
