"""Record defects of shipped jobs."""

import structlog

from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.domain.errors import Refused, Unavailable
from gigafactory.domain.job.job import Job
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller, Role
from gigafactory.domain.tracker.defect import Defect, DefectSource, job_ids_in_ticket, report_defect
from gigafactory.domain.tracker.ticket import Ticket

ACTOR = "system:tracker"

log = structlog.get_logger()


class Defects:
    """Records defects reported by people, reverts found by factories, and tickets naming jobs."""

    def __init__(self, committer: Committer, clock: Clock, jobs: JobQueries) -> None:
        self._committer = committer
        self._clock = clock
        self._jobs = jobs

    async def report(self, caller: Caller, reference: str, defect: Defect) -> Job:
        """Record a defect of a shipped job, once per source and reference.

        Raises Forbidden, NotFound, Invalid, IllegalTransition, Conflict.
        """
        if caller.factory_id is None:
            caller.require("defect", OWN_PRODUCTS)

        async def decide() -> Plan[Job]:
            job = await self._jobs.lookup(caller, reference, state_only=True)
            change = report_defect(job, defect, caller.actor, now=self._clock.now())
            return Plan(job) if change is None else Plan(change.after, (change,))

        return await self._committer.execute(
            caller, "defect", decide, Job, request=(reference, defect)
        )

    async def record_from_ticket(self, product: str, item: Ticket) -> None:
        """Record a defect for every job that a ticket names; jobs that refuse it are skipped.

        Raises Unavailable.
        """
        by = Caller(actor=ACTOR, role=Role.OPERATOR, products=(product,), product=product)
        for job_id in job_ids_in_ticket(item):
            defect = Defect(source=DefectSource.TICKET, reference=item.id)
            try:
                await self.report(by, job_id, defect)
            except Unavailable:
                raise
            except Refused as no:
                log.info("ticket defect skipped", item=item.id, job=job_id, reason=no.detail)
