"""Submit jobs: one or a batch, all or none, idempotent by key."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock, Store
from gigafactory.coordinator.core.subtree import subtree
from gigafactory.coordinator.dispatch.dispatcher import Dispatcher
from gigafactory.coordinator.jobs.composite_children import ChildReconciler
from gigafactory.coordinator.jobs.drafting import Drafter, find_by_name
from gigafactory.coordinator.jobs.queries import JobQueries
from gigafactory.domain.errors import (
    Cycle,
    Fault,
    IdempotencyConflict,
    Invalid,
    NameTaken,
    Refused,
)
from gigafactory.domain.job.change import JobChange, KeyTaken, RecordChange, Write
from gigafactory.domain.job.job import Job, Result, Stage
from gigafactory.domain.job.lifecycle import combine, name_key
from gigafactory.domain.job.operator_actions import cancel
from gigafactory.domain.manifest.job_file import CHILDREN_MAX
from gigafactory.domain.manifest.manifest import JobFile
from gigafactory.domain.submission.children import (
    FAULTS_MAX,
    expand,
    field_path,
    require_manual_ship,
)
from gigafactory.domain.submission.draft import Draft
from gigafactory.domain.submission.submission import (
    idempotency_hold,
    refuse_cycles,
    submit,
    supersede,
)
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller
from gigafactory.wire.limits import BATCH_MAX

WALK_MAX = 10_000
"""Jobs visited at most in the search for a cycle through a superseded job."""


class SubmissionResult(msgspec.Struct, frozen=True):
    """The jobs of a submission in order, and whether any of them is new."""

    jobs: tuple[Job, ...]
    created: bool


class Submissions:
    """Submits jobs and children of composites."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        jobs: JobQueries,
        drafting: Drafter,
        dispatcher: Dispatcher,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._jobs = jobs
        self._drafter = drafting
        self._reconciler = ChildReconciler(store, clock)
        self._dispatcher = dispatcher

    async def submit(self, caller: Caller, files: Sequence[JobFile]) -> SubmissionResult:
        """Store all jobs or none; a job submitted before under the same key is returned.

        Raises Forbidden, Invalid, NameTaken, Cycle, IdempotencyConflict, RepoNotOwned.
        """
        caller.require("submit", OWN_PRODUCTS)
        if not 0 < len(files) <= BATCH_MAX:
            fault = Fault("jobs", f"found {len(files)} jobs; expected 1 to {BATCH_MAX}")
            raise Invalid("the submission", [fault])

        first = True
        with ExitStack() as offering:

            async def decide() -> Plan[SubmissionResult]:
                nonlocal first
                plan = await self._plan(caller, files, _locations(files))
                # After a conflict, the retry omits the offer, which may have caused it.
                with_offer, first = first and len(files) == 1, False
                return self._with_offer(plan, offering) if with_offer else plan

            return await self._committer.execute(
                caller,
                "submit",
                decide,
                SubmissionResult,
                request=list(files),
                refuse_held=_name_taken,
            )

    async def dry_run(self, caller: Caller, files: Sequence[JobFile]) -> SubmissionResult:
        """Return what `submit` would return, without storing anything; raises the same."""
        caller.require("submit", OWN_PRODUCTS)
        return (await self._plan(caller, files, _locations(files))).value

    async def add_children(
        self, caller: Caller, reference: str, files: Sequence[JobFile]
    ) -> SubmissionResult:
        """Add children to a composite, all or none; the newest plan wins.

        Children that have shipped or are running are kept. An agent can only add to the composite
        of its own job. Raises what `submit` raises, NotFound, and IllegalTransition for a job that
        takes no children.
        """
        if caller.agent_scope is None:
            caller.require("submit", OWN_PRODUCTS)
        if not 0 < len(files) <= CHILDREN_MAX:
            fault = Fault("jobs", f"found {len(files)} children; expected 1 to {CHILDREN_MAX}")
            raise Invalid("the plan", [fault])

        async def decide() -> Plan[SubmissionResult]:
            parent = await self._jobs.lookup(caller, reference)
            caller.require_own_composite(parent.id)
            if not parent.composite:
                fault = Fault("parent", f"job {parent.id} is a leaf; only a composite has children")
                raise Invalid("the plan", [fault])
            return await self.plan_children(caller, files, parent)

        return await self._committer.execute(
            caller,
            "add-children",
            decide,
            SubmissionResult,
            request=(reference, list(files)),
            refuse_held=_name_taken,
        )

    async def plan_children(
        self,
        caller: Caller,
        files: Sequence[JobFile],
        under: Job,
        *,
        list_name: str = "jobs",
        unreviewed: bool = False,
    ) -> Plan[SubmissionResult]:
        """Return the writes that add children to a composite; `list_name` locates faults.

        `unreviewed`: no person reviews the children before they start.
        Raises what `add_children` raises.
        """
        locations = [f"{list_name}[{number}]" for number in range(len(files))]
        children = _as_children(files, under, locations)
        return await self._plan(caller, children, locations, under, unreviewed=unreviewed)

    def _with_offer(
        self, plan: Plan[SubmissionResult], offering: ExitStack
    ) -> Plan[SubmissionResult]:
        """Offer a single new job in the commit that stores it, if it is next in the queue."""
        match plan.writes:
            case [JobChange(before=None, after=new) as change]:
                offer = offering.enter_context(self._dispatcher.offer_on_submit(new))
                if offer is None:
                    return plan
                value = replace(plan.value, jobs=(offer.after,))
                return replace(plan, value=value, writes=(combine(change, offer),))
            case _:
                return plan

    async def _plan(
        self,
        caller: Caller,
        files: Sequence[JobFile],
        locations: Sequence[str],
        under: Job | None = None,
        *,
        unreviewed: bool = False,
    ) -> Plan[SubmissionResult]:
        expanded = expand(files, places=locations)
        drafts = await self._with_unique_names(
            await self._drafter.draft_all(caller, expanded, under)
        )
        if caller.agent_scope is not None or unreviewed:
            require_manual_ship(
                {s.place: d.job for s, d in zip(expanded, drafts, strict=True)}, under
            )
        known = await self._find_by_key(drafts)
        for holder in known.values():
            # Keys are shared by the product: an agent could supersede a job outside its composite.
            await self._jobs.require_related(caller, holder)
        now, by = self._clock.now(), caller.actor
        resolved = {
            d.job.id: old
            for d in drafts
            if (old := known.get(d.job.id)) and old.content_hash == d.job.content_hash
        }
        plan = await self._reconciler.reconcile(drafts, resolved, by=by)
        fresh = [d for d in drafts if d.job.id not in plan.dropped]
        places = {d.job.id: s.place for d, s in zip(drafts, expanded, strict=True)}
        deps = await self._resolve_deps(fresh, known, places)
        await self._reconciler.refuse_cycles(fresh, deps, plan)
        writes: list[JobChange] = []
        ceilings: list[RecordChange] = []
        stored = dict(plan.parents)
        for new in fresh:
            wanted = tuple(deps[want, new.job.product_id] for want in new.deps)
            parent = stored.get(new.job.parent_id or "")
            above = parent.ceilings if parent is not None and new.job.composite else ()
            job = replace(
                new.job,
                deps=tuple(dict.fromkeys(dep.id for dep in wanted)),
                roadmap=plan.roadmaps.get(new.job.id, new.job.roadmap),
                ceilings=(*above, *new.job.ceilings),
            )
            change = submit(job, new.spec, wanted, actor=by, now=now, parent=parent)
            old = known.get(new.job.id)
            if old is not None:
                writes += await self._supersede(old, change.after, caller)
            writes.append(change)
            if new.ceiling is not None:
                ceilings.append(RecordChange(before=None, after=new.ceiling))
            stored[job.id] = change.after
        jobs = tuple(
            stored.get(d.job.id) or plan.existing[d.job.id]
            for d, source in zip(drafts, expanded, strict=True)
            if source.parent is None
        )
        auto = any(not d.has_given_name for d in fresh)
        made: tuple[Write, ...] = (*plan.writes, *writes, *ceilings)
        return Plan(SubmissionResult(jobs, created=bool(fresh)), made, retry_if_held=auto)

    async def _with_unique_names(self, drafts: list[Draft]) -> list[Draft]:
        """Give unnamed drafts unique names; refuse a name that the batch uses twice."""
        taken = await self._store.key_owners(
            {name_key(d.job) for d in drafts if not d.has_given_name}
        )
        seen: set[str] = set()
        unique = []
        for made in drafts:
            key = name_key(made.job)
            if not made.has_given_name and (key in taken or key in seen):
                job = replace(made.job, name=f"{made.job.name[:80]}-{made.job.id[-10:]}")
                unique.append(replace(made, job=job))
                continue
            if key in seen:
                raise NameTaken(
                    f"the batch has two jobs with the name {made.job.name!r}; rename one"
                )
            seen.add(key)
            unique.append(made)
        return unique

    async def _find_by_key(self, drafts: Sequence[Draft]) -> dict[str, Job]:
        """Return the existing jobs of drafts whose idempotency key is in use, by draft id.

        Raises IdempotencyConflict if the content differs and the job can no longer be superseded.
        """
        keys = {
            idempotency_hold(d.job.product_id, k): d for d in drafts if (k := d.job.idempotency_key)
        }
        if len(keys) != sum(d.job.idempotency_key is not None for d in drafts):
            raise IdempotencyConflict("the batch uses one idempotency key for two jobs")
        owners = await self._store.key_owners(keys)
        jobs = await self._store.jobs(set(owners.values()))
        known = {keys[key].job.id: jobs[owner] for key, owner in owners.items()}
        for made in drafts:
            old = known.get(made.job.id)
            if old is None or old.content_hash == made.job.content_hash:
                continue
            if old.stage not in {Stage.QUEUED, Stage.BLOCKED}:
                raise IdempotencyConflict(
                    f"idempotency key {made.job.idempotency_key!r} belongs to job {old.id}, with"
                    f" other content, which is {old.stage}; use a new key"
                )
        return known

    async def _supersede(self, old: Job, new: Job, caller: Caller) -> list[JobChange]:
        dependents = await self._store.dependents(old.id)
        await self._refuse_cycle(new, {job.id for job in dependents})
        now, by = self._clock.now(), caller.actor
        below = await subtree(self._store, old, most=CHILDREN_MAX)
        return [
            *supersede(old, new, dependents, by=by, now=now),
            *(
                cancel(each, by, f"superseded with {old.id}", now=now, result=Result.SUPERSEDED)
                for each in below
                if not each.finished
            ),
        ]

    async def _refuse_cycle(self, new: Job, dependents: set[str]) -> None:
        """Refuse a job that waits for a dependent of the superseded job, which will wait for it."""
        seen: set[str] = set()
        look = set(new.deps)
        while look and len(seen) < WALK_MAX:
            if circle := look & dependents:
                raise Cycle([new.name, *sorted(circle), new.name])
            seen |= look
            jobs = await self._store.jobs(look)
            look = {dep for job in jobs.values() for dep in job.deps} - seen

    async def _resolve_deps(
        self, drafts: Sequence[Draft], known: Mapping[str, Job], places: Mapping[str, str]
    ) -> Mapping[tuple[str, str], Job]:
        """Return the jobs that drafts depend on: same batch, then unfinished, then newest finished.

        A dependency on a job that the batch supersedes resolves to its replacement.
        Raises Invalid naming all that are unknown, Cycle when the batch closes a circle.
        """
        batch = {
            (name, d.job.product_id): d.job
            for d in drafts
            if (old := known.get(d.job.id))
            for name in (old.name, old.id)
        }
        batch |= {(d.job.name, d.job.product_id): d.job for d in drafts}
        refuse_cycles(
            {
                d.job.name: [
                    batch[w, d.job.product_id].name
                    for w in d.deps
                    if (w, d.job.product_id) in batch
                ]
                for d in drafts
            }
        )
        jobs: dict[tuple[str, str], Job] = dict(batch)
        faults = []
        for made in drafts:
            for want in made.deps:
                place = (want, made.job.product_id)
                job = jobs.get(place) or await find_by_name(self._store, made.job.product_id, want)
                if job is None:
                    message = f"there is no job {want!r} in product {made.job.product_id!r}"
                    faults.append(Fault(field_path(places[made.job.id], "deps"), message))
                else:
                    jobs[place] = job
        if faults:
            raise Invalid("the manifest", faults[:FAULTS_MAX])
        return jobs


def _locations(files: Sequence[JobFile]) -> list[str]:
    """Return the location of each job in the submission; a single job needs none."""
    if len(files) == 1:
        return [""]
    return [f"jobs[{number}]" for number in range(len(files))]


def _as_children(files: Sequence[JobFile], parent: Job, places: Sequence[str]) -> list[JobFile]:
    """Strip product and parent from children of a composite.

    Raises Invalid for children that name another composite or product, or have a schedule.
    """
    faults = []
    for place, file in zip(places, files, strict=True):
        manifest = file.manifest
        if manifest.product not in {None, parent.product_id}:
            message = f"found {manifest.product!r}; its composite belongs to {parent.product_id!r}"
            faults.append(Fault(field_path(place, "product"), message))
        if manifest.parent not in {None, parent.id, parent.name}:
            message = f"found {manifest.parent!r}; it was submitted for {parent.name!r}"
            faults.append(Fault(field_path(place, "parent"), message))
        if manifest.schedule is not None:
            message = "found a schedule; expected none: a schedule's template never ships"
            faults.append(Fault(field_path(place, "schedule"), message))
    if faults:
        raise Invalid("the plan", faults[:FAULTS_MAX])
    return [replace(f, manifest=replace(f.manifest, product=None, parent=None)) for f in files]


def _name_taken(held: KeyTaken) -> Refused:
    kind, _, rest = held.key.partition("/")
    if kind == "name":
        product, _, name = rest.partition("/")
        return NameTaken(
            f"the name {name!r} is taken by an unfinished job of product {product!r} ({held.by});"
            " choose another name, or cancel that job"
        )
    return IdempotencyConflict(f"another request is using {held.key} right now ({held.by})")
