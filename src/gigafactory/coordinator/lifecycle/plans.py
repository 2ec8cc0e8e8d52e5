"""Plans of planner jobs: validated when reported, turned into children when shipped."""

import asyncio
from datetime import datetime

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.core.ports import Store
from gigafactory.coordinator.files.artifacts import ArtifactService
from gigafactory.coordinator.jobs.submissions import Submissions
from gigafactory.domain.composite.plan import (
    PLAN_BYTES_MAX,
    PLAN_FILE,
    SUCCESS,
    accept_plan,
    parse_plan,
    refuse_plan,
    refuse_planner_name,
    send_back,
)
from gigafactory.domain.errors import Conflict, Fault, Invalid, NameTaken, NotFound, Refused
from gigafactory.domain.job.change import JobChange, Write
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.job.worker_report import Report, change_for
from gigafactory.domain.manifest.manifest import JobFile
from gigafactory.domain.tenancy.access import Caller

PARSE_INLINE_MAX = 64 * 1024
"""Larger plans are parsed in a thread."""
PLAN_FAULTS = (Invalid, Conflict, NotFound)
"""Errors caused by the plan itself, unlike an unavailable store."""


class ReportEffect(msgspec.Struct, frozen=True):
    """The effect of a worker's report."""

    report: Report
    """The effective report: a planner's success becomes a failure if its plan is invalid."""
    change: JobChange | None
    children: tuple[Write, ...] = ()
    """Children created from a plan, in the same commit."""


class PlanImporter:
    """Turns plan files of planner jobs into children of their composites."""

    def __init__(self, store: Store, artifacts: ArtifactService, submissions: Submissions) -> None:
        self._store = store
        self._artifacts = artifacts
        self._submissions = submissions

    async def apply_report(
        self, caller: Caller, job: Job, report: Report, *, now: datetime
    ) -> ReportEffect:
        """Return the effect of a report, after validating the plan of a planner.

        Raises what `change_for` raises.
        """
        factory_id = caller.factory_id or ""
        try:
            effective = await self._check_plan(caller, job, report)
        except PLAN_FAULTS as why:
            return _send_back(job, factory_id, report, why, now)
        change = change_for(job, factory_id, effective, now=now)
        try:
            children = () if change is None else await self.create_children(caller, change)
        except PLAN_FAULTS as why:
            return _send_back(job, factory_id, report, why, now)
        return ReportEffect(effective, change, children)

    async def _check_plan(self, caller: Caller, job: Job, report: Report) -> Report:
        """Validate the plan that a planner reports as done; other reports pass unchanged.

        Raises Invalid, Conflict and NotFound for an invalid plan.
        """
        if not job.planner or report.stage not in SUCCESS:
            return report
        files = await self._read_plan(job, report.epoch)
        await self._plan_children(caller, job, files)
        return accept_plan(job, report, len(files))

    async def create_children(self, caller: Caller, change: JobChange) -> tuple[Write, ...]:
        """Return the writes that create a shipped planner's children; none for other changes.

        Raises Invalid, Conflict and NotFound for a plan that is no longer valid.
        """
        if not change.after.planner or change.after.stage is not Stage.SHIPPED:
            return ()
        return await self._plan_children(
            caller, change.after, await self._read_plan(change.after, None)
        )

    async def _plan_children(
        self, caller: Caller, planner: Job, files: tuple[JobFile, ...]
    ) -> tuple[Write, ...]:
        refuse_planner_name(planner, files)
        composite = await self._store.job(planner.parent_id or "")
        if composite is None:
            raise NotFound("composite", planner.parent_id or "")
        # The jobs belong to the plan's author, not to the person who approved it.
        author = replace(caller, actor=planner.submitted_by)
        unseen = not planner.terms.review_by_people
        plan = await self._submissions.plan_children(
            author, files, composite, list_name="plan", unreviewed=unseen
        )
        await self._refuse_taken_names(plan.writes)
        return plan.writes

    async def _refuse_taken_names(self, writes: tuple[Write, ...]) -> None:
        """Refuse names that unfinished jobs have.

        Raises NameTaken.
        """
        changes = [write for write in writes if isinstance(write, JobChange)]
        freed = {key for change in changes for key in change.free}
        wanted = {key for change in changes for key in change.take if key.startswith("name/")}
        for key, owner in sorted((await self._store.key_owners(wanted - freed)).items()):
            name = key.rpartition("/")[2]
            raise NameTaken(f"the name {name!r} is taken by an unfinished job ({owner})")

    async def _read_plan(self, planner: Job, epoch: int | None) -> tuple[JobFile, ...]:
        """Read the newest plan of a planner, or the plan of the run with this epoch.

        Raises Invalid, and NotFound if the file's bytes are gone.
        """
        rejected = [
            each
            for each in await self._artifacts.list_all(planner)
            if each.name == PLAN_FILE and each.epoch is not None and epoch in (None, each.epoch)
        ]
        if not rejected:
            fault = Fault("", f"the run uploaded no {PLAN_FILE}; expected a YAML list")
            raise Invalid("the plan", [fault])
        newest = rejected[-1]
        if newest.size > PLAN_BYTES_MAX:
            fault = Fault("", f"found {newest.size} bytes; expected at most {PLAN_BYTES_MAX}")
            raise Invalid("the plan", [fault])
        data = b"".join([piece async for piece in self._artifacts.read(newest)])
        if len(data) <= PARSE_INLINE_MAX:
            return parse_plan(data)
        return await asyncio.to_thread(parse_plan, data)


def _send_back(
    job: Job, factory_id: str, report: Report, why: Refused, now: datetime
) -> ReportEffect:
    failure = refuse_plan(job, report, why)
    change = change_for(job, factory_id, failure, now=now)
    assert change is not None, "a failure report changes the job"
    return ReportEffect(failure, send_back(change, failure.reason or ""))
