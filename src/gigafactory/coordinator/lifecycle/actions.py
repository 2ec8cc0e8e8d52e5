"""Actions of people on jobs: approve, ship, requeue, cancel, and so on."""

from collections.abc import Callable

import msgspec

from gigafactory.coordinator.core.committer import Committer, Plan, key_held
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.coordinator.core.subtree import subtree
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.coordinator.lifecycle.plans import PlanImporter
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.composite import composite
from gigafactory.domain.errors import IllegalTransition, NameTaken, NotFound, Refused
from gigafactory.domain.job import operator_actions as decisions
from gigafactory.domain.job.change import JobChange, KeyTaken, Write
from gigafactory.domain.job.job import Job, Result, Stage
from gigafactory.domain.job.lease import request_preemption
from gigafactory.domain.job.lifecycle import ACTIONS
from gigafactory.domain.job.run import Review
from gigafactory.domain.manifest.job_file import CHILDREN_MAX
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller

REVIEWS = {
    "approve": Review.APPROVED,
    "reject": Review.REJECTED,
    "request-changes": Review.CHANGES_REQUESTED,
}


class ActionRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Parameters of an action: reason, commit, fresh start, reviewers."""

    reason: str = ""
    commit: str | None = None
    fresh: bool = False
    reviewers: tuple[str, ...] = ()
    quorum: int | None = None


class Actions:
    """Performs the actions of the lifecycle table."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        jobs: JobQueries,
        workers: WorkerWrites,
        plans: PlanImporter,
    ) -> None:
        self._plans = plans
        self._store = store
        self._committer = committer
        self._clock = clock
        self._jobs = jobs
        self._workers = workers

    async def act(self, caller: Caller, reference: str, action: str, request: ActionRequest) -> Job:
        """Perform an action on a job; return the job.

        Raises Forbidden, NotFound, IllegalTransition, Conflict for an older commit, Invalid for
        a missing reason or commit, NameTaken if a reopened job's name is in use, and faults of an
        approved plan.
        """
        if action not in ACTIONS:
            raise NotFound("action", action, "actions: " + ", ".join(ACTIONS))
        caller.require(action, OWN_PRODUCTS)

        async def decide() -> Plan[Job]:
            job = await self._jobs.lookup(caller, reference)
            await self._require_open_parent(job, action)
            change = self._change(caller, job, action, request)
            ended = await self._end_run(job, change)
            below = await self._changes_below(caller, job, action, request)
            judged = await self._record_review(action, change)
            planted = await self._plans.create_children(caller, change)
            writes = (change, *ended, *below, *judged, *planted)
            return Plan(change.after, writes, retry_if_held=bool(planted))

        return await self._committer.execute(
            caller, action, decide, Job, request=(reference, request), refuse_held=_refuse_held
        )

    def _change(self, caller: Caller, job: Job, action: str, request: ActionRequest) -> JobChange:
        now, by = self._clock.now(), caller.actor
        steps: dict[str, Callable[[], JobChange]] = {
            "approve": lambda: composite.approve(job, by, request.reason, request.commit, now=now),
            "reject": lambda: decisions.reject(job, by, request.reason, request.commit, now=now),
            "request-changes": lambda: decisions.request_changes(
                job, by, request.reason, request.commit, now=now
            ),
            "request-review": lambda: decisions.request_review(
                job, by, request.reviewers, request.quorum, request.reason, now=now
            ),
            "ship": lambda: decisions.request_ship(job, by, request.commit, now=now),
            "override-scope": lambda: decisions.override_scope(job, by, request.reason, now=now),
            "requeue": lambda: self._requeue(job, by, request),
            "cancel": lambda: decisions.cancel(job, by, request.reason, now=now),
            "promote": lambda: decisions.promote(job, by, now=now),
            "preempt": lambda: request_preemption(job, by, request.reason, now=now),
            "release": lambda: decisions.release(job, by, request.reason, now=now),
        }
        return steps[action]()

    def _requeue(self, job: Job, by: str, request: ActionRequest) -> JobChange:
        # Composites and their children wait for their phase; any other job is queued at once.
        reopen = job.composite or job.parent_id is not None
        rule = composite.reopen if reopen else decisions.requeue
        return rule(job, by, fresh=request.fresh, now=self._clock.now())

    async def _require_open_parent(self, job: Job, action: str) -> None:
        """Refuse to reopen a child of a finished composite."""
        if action != "requeue" or job.parent_id is None:
            return
        parent = await self._store.job(job.parent_id)
        if parent is not None and parent.finished:
            hint = f"its composite {parent.name} is {parent.stage}; requeue the composite"
            raise IllegalTransition(job.id, job.stage, Stage.QUEUED, hint)

    async def _changes_below(
        self, caller: Caller, job: Job, action: str, request: ActionRequest
    ) -> tuple[JobChange, ...]:
        """Return the changes of a composite's descendants that belong to the same commit.

        Cancel: nested composites, which stops grants below them at once; leaves follow later.
        Requeue: everything that ended without shipping.
        """
        if not job.composite or action not in {"cancel", "requeue"}:
            return ()
        below = await subtree(self._store, job, most=CHILDREN_MAX)
        now, by = self._clock.now(), caller.actor
        if action == "cancel":
            reason = request.reason or f"its composite {job.name} was cancelled"
            nested = [each for each in below if each.composite and not each.finished]
            return tuple(decisions.cancel(each, by, reason, now=now) for each in nested)
        return tuple(
            composite.reopen(each, by, fresh=request.fresh, now=now)
            for each in below
            if each.finished and each.stage is not Stage.SHIPPED and each.superseded_by is None
        )

    async def _end_run(self, before: Job, change: JobChange) -> tuple[Write, ...]:
        """End the run if the action took its lease away."""
        if before.lease is None or change.after.lease is not None:
            return ()
        ended = await self._workers.end_run_writes(
            before.lease, change.after.result or Result.CANCELLED, change.after.reason
        )
        return tuple(ended)

    async def _record_review(self, action: str, change: JobChange) -> tuple[Write, ...]:
        """Record a review's outcome with the reviewed run."""
        review = REVIEWS.get(action)
        left = change.before is not None and change.before.stage is Stage.REVIEW
        if review is None or not left or change.after.stage is Stage.REVIEW:
            return ()
        return await self._workers.review_run_writes(change.after, review)


def _refuse_held(held: KeyTaken) -> Refused:
    if held.key.startswith("name/"):
        name = held.key.rpartition("/")[2]
        return NameTaken(f"the name {name!r} is now taken by job {held.by}; cancel that job first")
    return key_held(held)
