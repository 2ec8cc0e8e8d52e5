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
    queue: FolderQueue, reference: str, action: str, by: str, wish: FolderActionInput = NOTHING
) -> JobRecord | str:
    """Apply an action to a job; return the job, or the name of an invalid file that is retried.

    Raises Refused.
    """
    with queue.open() as desk:
        if action == "requeue" and (file := _tried_again(desk, reference)) is not None:
            return file
        record = desk.lookup(reference)
        change = _change(record.job, action, by, wish, desk)
        before, after = record.job.lease, change.after
        run = record.runs[-1] if before is not None and after.lease is None else None
        ended = (
            end_run(run, after.result, after.reason, now=desk.now) if run and after.result else None
        )
        return desk.commit(change, ended)


def _tried_again(desk: LockedQueue, reference: str) -> str | None:
    """Move an invalid file back into the inbox, where it is read again."""
    plain = reference.rpartition("/")[2].removesuffix(".md")
    path = desk.board.column("failed") / f"{plain}.md"
    errors = desk.board.errors(path.name)
    if not path.is_file() or not errors.exists():
        return None
    desk.board.move(path, "inbox")
    errors.unlink()
    return path.name


def _change(
    job: Job, action: str, by: str, wish: FolderActionInput, desk: LockedQueue
) -> JobChange:
    now = desk.now
    steps: Mapping[str, Callable[[], JobChange]] = {
        "approve": lambda: decisions.approve(job, by, wish.reason, wish.commit, now=now),
        "reject": lambda: decisions.reject(job, by, wish.reason, wish.commit, now=now),
        "request-changes": lambda: decisions.request_changes(
            job, by, wish.reason, wish.commit, now=now
        ),
        "request-review": lambda: decisions.request_review(
            job, by, wish.reviewers, wish.quorum, wish.reason, now=now
        ),
        "ship": lambda: _ship(job, by, wish, desk),
        "override-scope": lambda: decisions.override_scope(job, by, wish.reason, now=now),
        "requeue": lambda: decisions.requeue(job, by, fresh=wish.fresh, now=now),
        "cancel": lambda: decisions.cancel(job, by, wish.reason, now=now),
        "promote": lambda: _promote(job, by, wish, desk),
        "preempt": lambda: request_preemption(job, by, wish.reason, now=now),
        "release": lambda: decisions.release(job, by, wish.reason, now=now),
    }
    if action not in steps:
        raise NotFound("action", action, "there are " + ", ".join(steps))
    return steps[action]()


def _promote(job: Job, by: str, wish: FolderActionInput, desk: LockedQueue) -> JobChange:
    """Move a job one step on: from review to testing, or to the front of the queue."""
    if job.stage is Stage.REVIEW:
        return decisions.approve(job, by, wish.reason, wish.commit, now=desk.now)
    return decisions.promote(job, by, now=desk.now)


def _ship(job: Job, by: str, wish: FolderActionInput, desk: LockedQueue) -> JobChange:
    if REBUILT in job.flags and job.ask.repo is not None and job.checkpoint is None:
        raise Conflict(
            f"the record of {job.name} was lost and rebuilt, and its commit is not known:"
            " send it back with `aq request-changes`, or merge its branch by hand and reject it"
        )
    return decisions.request_ship(job, by, wish.commit, now=desk.now)
