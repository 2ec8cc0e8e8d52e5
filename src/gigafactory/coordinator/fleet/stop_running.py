"""Stop requests: ask running jobs to checkpoint and hand back."""

import asyncio

from msgspec.structs import replace

from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import PAGE_MAX, Clock, JobQuery, Store
from gigafactory.domain.job.job import RUNNING, Job
from gigafactory.domain.job.lease import request_preemption
from gigafactory.domain.tenancy.access import Caller

TREASURER = Caller(actor="system:budget", products=("*",))


class StopRequests:
    """Sends preemption requests to running jobs; sending twice is the same as once."""

    def __init__(self, store: Store, committer: Committer, clock: Clock) -> None:
        """Ask through this committer."""
        self._store = store
        self._committer = committer
        self._clock = clock

    async def send_to_product(self, caller: Caller, product: str | None, reason: str) -> int:
        """Ask all running jobs of a product, or of all products; return how many there were."""
        products = (product,) if product else None
        return await self._send_all(caller, reason, JobQuery(products=products))

    async def send_to_children(self, caller: Caller, composite: Job, reason: str) -> int:
        """Ask the running children of a composite; return how many there were."""
        return await self._send_all(caller, reason, JobQuery(parent_id=composite.id))

    async def _send_all(self, caller: Caller, reason: str, job_query: JobQuery) -> int:
        query = replace(job_query, stages=tuple(RUNNING), limit=PAGE_MAX)
        stopping = 0
        while page := await self._store.find_jobs(query):
            # Composites are not run by workers; their children are.
            running = [job for job in page if not job.composite]
            waiting = (job.id for job in running if job.preemption is None)
            await asyncio.gather(*(self._send(caller, job_id, reason) for job_id in waiting))
            stopping += len(running)
            query = replace(query, after=page[-1].id)
        return stopping

    async def _send(self, caller: Caller, job_id: str, reason: str) -> None:
        async def decide() -> Plan[None]:
            job = await self._store.job(job_id)
            if job is None or job.stage not in RUNNING or job.preemption is not None:
                return Plan(None)
            change = request_preemption(job, caller.actor, reason, now=self._clock.now())
            return Plan(None, (change,))

        await self._committer.execute(replace(caller, request_key=None), "stop", decide, type(None))
