"""The verb by which a defect of something shipped becomes known, by whomever and however often."""

import structlog

from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.domain.errors import Refused, Unavailable
from gigafactory.domain.job.job import Job
from gigafactory.domain.tenancy.access import Caller, Role
from gigafactory.domain.tracker.defect import Defect, Source, job_ids_in_ticket, report_defect
from gigafactory.domain.tracker.ticket import Ticket

WHO = "system:tracker"

log = structlog.get_logger()


class Defects:
    """People report them, factories find reverts, and tickets name jobs."""

    def __init__(self, committer: Committer, clock: Clock, jobs: JobQueries) -> None:
        """Write through this committer."""
        self._committer = committer
        self._clock = clock
        self._jobs = jobs

    async def report(self, caller: Caller, reference: str, defect: Defect) -> Job:
        """Note a defect of a shipped job; what is known already is noted once.

        Raises Forbidden, NotFound, Invalid, IllegalTransition, Conflict.
        """
        if caller.factory_id is None:
            caller.require("defect")

        async def decide() -> Plan[Job]:
            job = await self._jobs.lookup(caller, reference)
            change = report_defect(job, defect, caller.actor, now=self._clock.now())
            return Plan(job) if change is None else Plan(change.after, (change,))

        return await self._committer.execute(
            caller, "defect", decide, Job, request=(reference, defect)
        )

    async def record_from_ticket(self, product: str, item: Ticket) -> None:
        """Note what a ticket complains of; a job that it names in vain is nobody's defect.

        Raises Unavailable.
        """
        by = Caller(actor=WHO, role=Role.OPERATOR, products=(product,), product=product)
        for job_id in job_ids_in_ticket(item):
            defect = Defect(source=Source.TICKET, reference=item.id)
            try:
                await self.report(by, job_id, defect)
            except Unavailable:
                raise
            except Refused as no:
                log.info("ticket names a job", item=item.id, job=job_id, reason=no.detail)
