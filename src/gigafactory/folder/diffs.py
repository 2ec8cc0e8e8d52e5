"""What a job of a folder has changed."""

from gigafactory.domain.diff import WorkDiff, read_diff
from gigafactory.domain.errors import NotFound
from gigafactory.folder.queue import Queue


def diff_of(queue: Queue, reference: str) -> WorkDiff:
    """The diff of the newest run that has left one.

    Raises NotFound when there is none, Invalid when its file is damaged.
    """
    with queue.open() as desk:
        kept = desk.lookup(reference)
    try:
        return read_diff(queue.board.diff(kept.key).read_bytes())
    except FileNotFoundError:
        hint = "none of its runs has changed a repo, or it has not run yet"
        raise NotFound("diff", f"of {kept.job.name}", hint) from None
