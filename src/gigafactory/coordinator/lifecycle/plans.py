"""Plans of planners: judged as a whole when they come, and children in the commit that ships."""

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
"""Larger plans are read beside everything else."""
PLAN_FAULTS = (Invalid, Conflict, NotFound)
"""What is the plan's own fault; a store that is away is not."""


class ReportEffect(msgspec.Struct, frozen=True):
    """What a worker's report comes to."""

    report: Report
    """As it counts: the success of a planner is none when its plan does not hold."""
    change: JobChange | None
    children: tuple[Write, ...] = ()
    """The children that a plan becomes, in the same commit."""


class PlanImporter:
    """Turns the plan files of planners into children of their composites."""

    def __init__(self, store: Store, artifacts: ArtifactService, submissions: Submissions) -> None:
        """Find plans among what runs have handed in."""
        self._store = store
        self._artifacts = artifacts
        self._submissions = submissions

    async def apply_report(
        self, caller: Caller, job: Job, report: Report, *, now: datetime
    ) -> ReportEffect:
        """What a report does to its job; that of a planner, once its plan has been judged.

        Raises what `change_for` does.
        """
        factory_id = caller.factory_id or ""
        try:
            told = await self._check_plan(caller, job, report)
        except PLAN_FAULTS as why:
            return _sent_back(job, factory_id, report, why, now)
        change = change_for(job, factory_id, told, now=now)
        try:
            planted = () if change is None else await self.create_children(caller, change)
        except PLAN_FAULTS as why:
            return _sent_back(job, factory_id, report, why, now)
        return ReportEffect(told, change, planted)

    async def _check_plan(self, caller: Caller, job: Job, report: Report) -> Report:
        """A planner's success with the verdict on its plan; any other report as it is.

        Raises Invalid, Conflict and NotFound for a plan that does not hold.
        """
        if not job.planner or report.stage not in SUCCESS:
            return report
        files = await self._read_plan(job, report.epoch)
        await self._plan_children(caller, job, files)
        return accept_plan(job, report, len(files))

    async def create_children(self, caller: Caller, change: JobChange) -> tuple[Write, ...]:
        """What makes the plan of a planner that ships the children of its composite.

        Nothing for any other change. Raises Invalid, Conflict and NotFound for a plan that does
        not hold any more.
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
        # Whoever lets a plan pass has not written it: its jobs are its author's.
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
            raise NameTaken(f"an unfinished job has the name {name!r} already ({owner})")

    async def _read_plan(self, planner: Job, epoch: int | None) -> tuple[JobFile, ...]:
        """The jobs in the newest plan of a planner's runs, or of the run of this epoch.

        Raises Invalid, and NotFound for bytes that are gone.
        """
        found = [
            each
            for each in await self._artifacts.list_all(planner)
            if each.name == PLAN_FILE and each.epoch is not None and epoch in (None, each.epoch)
        ]
        if not found:
            fault = Fault("", f"the run has handed in no file {PLAN_FILE}; expected a YAML list")
            raise Invalid("the plan", [fault])
        newest = found[-1]
        if newest.size > PLAN_BYTES_MAX:
            fault = Fault("", f"found {newest.size} bytes; expected at most {PLAN_BYTES_MAX}")
            raise Invalid("the plan", [fault])
        data = b"".join([piece async for piece in self._artifacts.read(newest)])
        if len(data) <= PARSE_INLINE_MAX:
            return parse_plan(data)
        return await asyncio.to_thread(parse_plan, data)


def _sent_back(
    job: Job, factory_id: str, report: Report, why: Refused, now: datetime
) -> ReportEffect:
    told = refuse_plan(job, report, why)
    change = change_for(job, factory_id, told, now=now)
    assert change is not None, "whatever fails leaves its stage, or says why it does not"
    return ReportEffect(told, send_back(change, told.reason or ""))
