"""Actions of people on the jobs of a folder, by the same rules as in a fleet."""

from collections.abc import Callable, Mapping

import msgspec

from gigafactory.domain.errors import Conflict, NotFound
from gigafactory.domain.job import operator_actions as decisions
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.folder_rules import REBUILT
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.job.lease import request_preemption
from gigafactory.domain.job.run import end_run
from gigafactory.folder.queue.record import JobRecord
from gigafactory.folder.queue.store import FolderQueue, LockedQueue


class FolderActionInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a person adds to an action."""

    reason: str = ""
    commit: str | None = None
    fresh: bool = False
    reviewers: tuple[str, ...] = ()
    quorum: int | None = None


NOTHING = FolderActionInput()


def act(
    queue: FolderQueue, reference: str, action: str, by: str, details: FolderActionInput = NOTHING
) -> JobRecord | str:
    """Apply an action to a job; return the job, or the name of an invalid file that is retried.

    Raises Refused.
    """
    with queue.open() as locked:
        if action == "requeue" and (file := _move_back_to_inbox(locked, reference)) is not None:
            return file
        record = locked.lookup(reference)
        change = _change(record.job, action, by, details, locked)
        before, after = record.job.lease, change.after
        run = record.runs[-1] if before is not None and after.lease is None else None
        ended = (
            end_run(run, after.result, after.reason, now=locked.now)
            if run and after.result
            else None
        )
        return locked.commit(change, ended)


def _move_back_to_inbox(locked: LockedQueue, reference: str) -> str | None:
    """Move an invalid file back into the inbox, where it is read again."""
    plain = reference.rpartition("/")[2].removesuffix(".md")
    path = locked.board.column("failed") / f"{plain}.md"
    errors = locked.board.errors(path.name)
    if not path.is_file() or not errors.exists():
        return None
    locked.board.move(path, "inbox")
    errors.unlink()
    return path.name


def _change(
    job: Job, action: str, by: str, details: FolderActionInput, locked: LockedQueue
) -> JobChange:
    now = locked.now
    steps: Mapping[str, Callable[[], JobChange]] = {
        "approve": lambda: decisions.approve(job, by, details.reason, details.commit, now=now),
        "reject": lambda: decisions.reject(job, by, details.reason, details.commit, now=now),
        "request-changes": lambda: decisions.request_changes(
            job, by, details.reason, details.commit, now=now
        ),
        "request-review": lambda: decisions.request_review(
            job, by, details.reviewers, details.quorum, details.reason, now=now
        ),
        "ship": lambda: _ship(job, by, details, locked),
        "override-scope": lambda: decisions.override_scope(job, by, details.reason, now=now),
        "requeue": lambda: decisions.requeue(job, by, fresh=details.fresh, now=now),
        "cancel": lambda: decisions.cancel(job, by, details.reason, now=now),
        "promote": lambda: _promote(job, by, details, locked),
        "preempt": lambda: request_preemption(job, by, details.reason, now=now),
        "release": lambda: decisions.release(job, by, details.reason, now=now),
    }
    if action not in steps:
        raise NotFound("action", action, "there are " + ", ".join(steps))
    return steps[action]()


def _promote(job: Job, by: str, details: FolderActionInput, locked: LockedQueue) -> JobChange:
    """Move a job one step on: from review to testing, or to the front of the queue."""
    if job.stage is Stage.REVIEW:
        return decisions.approve(job, by, details.reason, details.commit, now=locked.now)
    return decisions.promote(job, by, now=locked.now)


def _ship(job: Job, by: str, details: FolderActionInput, locked: LockedQueue) -> JobChange:
    if REBUILT in job.flags and job.ask.repo is not None and job.checkpoint is None:
        raise Conflict(
            f"the record of {job.name} was lost and rebuilt, and its commit is not known:"
            " send it back with `aq request-changes`, or merge its branch by hand and reject it"
        )
    return decisions.request_ship(job, by, details.commit, now=locked.now)
