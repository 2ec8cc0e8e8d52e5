"""Queries on jobs: lookup, search, events, runs, explanation, pending reviews."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from gigafactory.coordinator.core.ports import PAGE_MAX, Clock, JobQuery, Store, all_records
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.errors import Forbidden, JobArchived, NotFound
from gigafactory.domain.fleet.unroutable import is_unroutable
from gigafactory.domain.job.job import Event, Job, JobSpec, Stage
from gigafactory.domain.job.lease import run_id
from gigafactory.domain.job.run import Run
from gigafactory.domain.scheduler.explain import Explanation, explain
from gigafactory.domain.submission.retention import ArchivedJob
from gigafactory.domain.submission.submission import is_satisfied
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, ROLES_BY_VERB, AgentScope, Caller
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT
from gigafactory.domain.tenancy.target_wait import target_start

UNROUTABLE = "unroutable"
LATE = "late"
"""Flag of a job that waits longer than its product's target wait."""
NESTED_MAX = 100
"""Ancestors of a job visited at most when its composite is looked for."""


class JobQueries:
    """Queries on jobs; a job of a product that the caller cannot see is NotFound."""

    def __init__(self, store: Store, clock: Clock, index: Index) -> None:
        self._store = store
        self._clock = clock
        self._index = index

    async def get(self, caller: Caller, reference: str, *, state_only: bool = False) -> Job:
        """Return a job by id, or by name in the caller's product, with all flags.

        Raises NotFound.
        """
        return self.with_fleet_flags(await self.lookup(caller, reference, state_only=state_only))

    async def lookup(self, caller: Caller, reference: str, *, state_only: bool = False) -> Job:
        """Return a job as stored, by id, or by name in the caller's product.

        A factory finds the jobs that it has or had; with `state_only`, where nothing that the job
        says or made is shown, all of its products: it cleans up branches of other factories.
        Raises NotFound.
        """
        job = await self._store.job(reference)
        if job is None:
            job = await self._find_by_name(caller.product or DEFAULT_PRODUCT, reference)
        if job is None or not caller.can_see(job.product_id):
            await self._require_unarchived(caller, reference)
            raise NotFound("job", reference, "list jobs with `aq jobs`")
        if not await self._is_related(caller.agent_scope, job):
            raise NotFound("job", reference, "an agent only sees its own job and composite")
        if not state_only and not await self.has_worked_on(caller, job):
            raise NotFound("job", reference, "a factory only reads jobs that it has or had")
        return job

    async def has_worked_on(self, caller: Caller, job: Job) -> bool:
        """Return whether a factory has or had this job; True for any other caller."""
        factory_id = caller.factory_id
        if factory_id is None:
            return True
        if any(
            each is not None and each.factory_id == factory_id for each in (job.lease, job.offer)
        ):
            return True
        ids = [run_id(job.id, epoch) for epoch in range(1, job.lease_epoch + 1)]
        runs = (await self._store.records_by_key(Run, ids)).values()
        return any(run.factory_id == factory_id for run in runs)

    async def require_related(self, caller: Caller, job: Job) -> None:
        """Refuse an agent that would change a job outside its composite.

        Raises Forbidden.
        """
        if not await self._is_related(caller.agent_scope, job):
            raise Forbidden(
                f"{caller.actor} cannot change job {job.id}: it is outside the agent's composite"
            )

    async def _is_related(self, scope: AgentScope | None, job: Job) -> bool:
        """Whether an agent may see a job: its own, or any in its composite."""
        if scope is None or job.id in (scope.job_id, scope.composite_id):
            return True
        if scope.composite_id is None:
            return False
        above = job.parent_id
        for _ in range(NESTED_MAX):
            if above in (None, scope.composite_id):
                break
            parent = await self._store.job(above)
            above = parent.parent_id if parent else None
        return above == scope.composite_id

    async def _require_unarchived(self, caller: Caller, job_id: str) -> None:
        archived = await self._store.record(ArchivedJob, job_id)
        if archived is not None and caller.can_see(archived.product_id):
            raise JobArchived(job_id, archived.archived_at.date().isoformat())

    async def _find_by_name(self, product: str, name: str) -> Job | None:
        owner = await self._store.key_owners({f"name/{product}/{name}"})
        for job_id in owner.values():
            return await self._store.job(job_id)
        newest = await self._store.find_jobs(JobQuery(products=(product,), name=name, limit=1))
        return newest[0] if newest else None

    async def find(self, caller: Caller, query: JobQuery) -> Sequence[Job]:
        """Return one page of the jobs that the caller may see."""
        return [
            self.with_fleet_flags(job)
            for job in await self._store.find_jobs(_scoped(caller, query))
        ]

    async def find_many(self, caller: Caller, job_ids: Collection[str]) -> Sequence[Job]:
        """Return the jobs with these ids that exist and that the caller may see, ordered by id."""
        jobs = await self._store.jobs(job_ids)
        scope = (caller.product,) if caller.product is not None else caller.products
        seen = (jobs[job_id] for job_id in sorted(jobs))
        return [
            self.with_fleet_flags(job) for job in seen if "*" in scope or job.product_id in scope
        ]

    async def count_by_stage(self, caller: Caller) -> Mapping[Stage, int]:
        """Count jobs by stage in the caller's chosen or visible products."""
        return await self._store.count_jobs_by_stage(_scoped(caller, JobQuery()).products)

    async def spec(self, job: Job) -> JobSpec:
        """Return the resolved manifest and body of a job."""
        return (await self._store.specs([job.id]))[job.id]

    async def events(self, job: Job, *, after: int = 0, limit: int = 500) -> Sequence[Event]:
        """Return a job's events after a sequence number."""
        return await self._store.events(job.id, after=after, limit=limit)

    async def runs(self, job: Job) -> Sequence[Run]:
        """Return all runs of a job, oldest first."""
        runs = await all_records(self._store, Run, prefix=f"{job.id}.")
        return sorted(runs, key=lambda run: run.epoch)

    async def explain(self, job: Job) -> Explanation:
        """Explain why a job is where it is, or why it waits."""
        await self._index.catch_up()
        runs = await self.runs(job) if job.runs else ()
        deps = await self._store.jobs(job.deps) if job.stage is Stage.BLOCKED else {}
        mode = job.terms.deps_mode
        parent = await self._store.job(job.parent_id) if job.parent_id is not None else None
        return explain(
            job,
            self._index.queue,
            self._index.fleet,
            now=self._clock.now(),
            decision=runs[-1].decision if runs else {},
            open_deps=[dep.name for dep in deps.values() if not is_satisfied(dep, mode)],
            parent=parent,
        )

    def with_fleet_flags(self, job: Job) -> Job:
        """Add the flags that depend on the current fleet: unroutable, late."""
        if job.composite or job.stage not in {Stage.QUEUED, Stage.BLOCKED}:
            return job
        flags = [*job.flags]
        if is_unroutable(job.ask, job.product_id, self._index.fleet):
            flags.append(UNROUTABLE)
        due = self.due_at(job)
        if due is not None and due < self._clock.now():
            flags.append(LATE)
        return job if len(flags) == len(job.flags) else replace(job, flags=tuple(flags))

    def due_at(self, job: Job) -> datetime | None:
        """Return when a waiting job should have started; None without a target wait."""
        return target_start(job, self._index.fleet.product(job.product_id))


def _scoped(caller: Caller, query: JobQuery) -> JobQuery:
    """Restrict a query to the caller's chosen or visible products."""
    if caller.product is not None:
        return replace(query, products=(caller.product,))
    return query if "*" in caller.products else replace(query, products=caller.products)


class ReviewQueries:
    """Queries on pending reviews."""

    def __init__(self, jobs: JobQueries) -> None:
        self._jobs = jobs

    async def find_waiting(self, caller: Caller) -> Sequence[Job]:
        """Return the jobs that this caller should review, longest waiting first.

        Raises Forbidden.
        """
        caller.require("read", OWN_PRODUCTS)
        if caller.role not in ROLES_BY_VERB["approve"]:
            return []
        query = JobQuery(stages=(Stage.REVIEW,), oldest_first=True, limit=PAGE_MAX)
        return [job for job in await self._jobs.find(caller, query) if _waits_for(job, caller)]


def _waits_for(job: Job, caller: Caller) -> bool:
    reviewers = job.terms.reviewers
    if caller.actor in job.approvals:
        return False
    person = caller.actor.removeprefix("user:")
    return not reviewers or (person in reviewers and caller.actor != job.submitted_by)
