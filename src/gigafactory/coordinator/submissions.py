"""Taking jobs in: one or a thousand, all or nothing, each once."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.all_records import all_records
from gigafactory.coordinator.dispatcher import Dispatcher
from gigafactory.coordinator.ledger import Ledger, Plan
from gigafactory.coordinator.ports import Clock, Ids, JobQuery, Store
from gigafactory.coordinator.profiles import Profiles
from gigafactory.domain.access import Caller
from gigafactory.domain.change import Change, Held
from gigafactory.domain.draft import Draft, draft
from gigafactory.domain.errors import (
    Cycle,
    Fault,
    Forbidden,
    IdempotencyConflict,
    Invalid,
    NameTaken,
    Refused,
    RepoNotOwned,
)
from gigafactory.domain.job import Job, Stage
from gigafactory.domain.manifest import JobFile
from gigafactory.domain.moves import both, name_key
from gigafactory.domain.product import DEFAULT, Product
from gigafactory.domain.submission import key_key, refuse_cycles, submit, supersede

BATCH_MAX = 1000
WALK_MAX = 10_000
"""How many jobs are looked at for a circle through a superseded one."""


class Submitted(msgspec.Struct, frozen=True):
    """The jobs of a submission in their order, and whether any of them is new."""

    jobs: tuple[Job, ...]
    created: bool


class Submissions:
    """The verb `submit`."""

    def __init__(
        self,
        store: Store,
        ledger: Ledger,
        clock: Clock,
        ids: Ids,
        profiles: Profiles,
        dispatcher: Dispatcher,
    ) -> None:
        """Take jobs into this store."""
        self._store = store
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._profiles = profiles
        self._dispatcher = dispatcher

    async def submit(self, caller: Caller, files: Sequence[JobFile]) -> Submitted:
        """Store all of these jobs or none; one submitted before under its key is returned.

        Raises Forbidden, Invalid, NameTaken, Cycle, IdempotencyConflict, RepoNotOwned.
        """
        caller.require("submit")
        if not 0 < len(files) <= BATCH_MAX:
            fault = Fault("jobs", f"found {len(files)} jobs; expected 1 to {BATCH_MAX}")
            raise Invalid("the submission", [fault])

        first = True
        with ExitStack() as offering:

            async def decide() -> Plan[Submitted]:
                nonlocal first
                plan = await self._plan(caller, files)
                # When the first try fails, the offer may have been in the way: it waits then.
                alone, first = first and len(files) == 1, False
                return self._offered(plan, offering) if alone else plan

            return await self._ledger.settle(
                caller, "submit", decide, Submitted, request=list(files), held=_name_taken
            )

    def _offered(self, plan: Plan[Submitted], offering: ExitStack) -> Plan[Submitted]:
        """The plan of a single job, which is offered in the same commit if it comes next."""
        match plan.writes:
            case [Change(before=None, after=new) as change]:
                offer = offering.enter_context(self._dispatcher.offering(new))
                if offer is None:
                    return plan
                told = replace(plan.value, jobs=(offer.after,))
                return replace(plan, value=told, writes=(both(change, offer),))
            case _:
                return plan

    async def _plan(self, caller: Caller, files: Sequence[JobFile]) -> Plan[Submitted]:
        drafts = [await self._draft(caller, file) for file in files]
        drafts = await self._unique(drafts)
        known = await self._known(drafts)
        fresh = [d for d in drafts if known.get(d.job.id) is None or _replaces(d, known[d.job.id])]
        deps = await self._deps(fresh, known)
        now = self._clock.now()
        writes: list[Change] = []
        stored: dict[str, Job] = {}
        for new in fresh:
            named = tuple(deps[want, new.job.product_id] for want in new.wants)
            job = replace(new.job, deps=tuple(dict.fromkeys(dep.id for dep in named)))
            change = submit(job, new.spec, named, actor=caller.actor, now=now)
            old = known.get(new.job.id)
            if old is not None:
                writes += await self._superseded(old, change.after, caller)
            writes.append(change)
            stored[job.id] = change.after
        jobs = tuple(stored.get(d.job.id) or known[d.job.id] for d in drafts)
        auto = any(not d.named for d in fresh)
        return Plan(Submitted(jobs, created=bool(stored)), tuple(writes), again_if_held=auto)

    async def _draft(self, caller: Caller, file: JobFile) -> Draft:
        product = file.manifest.product or caller.product or DEFAULT
        if not caller.sees(product):
            covered = ", ".join(caller.products)
            raise Forbidden(
                f"{caller.actor} has no access to product {product!r}, only to {covered}"
            )
        profile = await self._profiles.named(product, file.manifest.profile)
        now = self._clock.now()
        made = draft(
            file, profile, job_id=self._ids.new(now), product=product, by=caller.actor, now=now
        )
        await self._owned(product, made.job)
        return await self._with_parent(made, file.manifest.parent)

    async def _owned(self, product_id: str, job: Job) -> None:
        product = await self._store.record(Product, product_id)
        repo = job.ask.repo
        if product is None or not product.repos or repo is None or repo in product.repos:
            return
        products = await all_records(self._store, Product)
        owner = next((p.id for p in products if repo in p.repos), None)
        whose = f"it belongs to product {owner!r}" if owner else "no product owns it"
        message = f"{repo!r} is not a repo of product {product_id!r}; {whose}"
        raise RepoNotOwned("the manifest", [Fault("repo", message)])

    async def _with_parent(self, made: Draft, parent: str | None) -> Draft:
        if parent is None:
            return made
        found = await self._find(made.job.product_id, parent)
        if found is None:
            fault = Fault(
                "parent", f"there is no job {parent!r} in product {made.job.product_id!r}"
            )
            raise Invalid("the manifest", [fault])
        return msgspec.structs.replace(made, job=replace(made.job, parent_id=found.id))

    async def _unique(self, drafts: list[Draft]) -> list[Draft]:
        """Name every draft that has no name; refuse a name that the batch has twice."""
        taken = await self._store.holders({name_key(d.job) for d in drafts if not d.named})
        seen: set[str] = set()
        unique = []
        for made in drafts:
            key = name_key(made.job)
            if not made.named and (key in taken or key in seen):
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

    async def _known(self, drafts: Sequence[Draft]) -> dict[str, Job]:
        """For drafts whose idempotency key was used before: the job that has it.

        Raises IdempotencyConflict when its content differs and it cannot be superseded any more.
        """
        keys = {key_key(d.job.product_id, k): d for d in drafts if (k := d.job.idempotency_key)}
        if len(keys) != sum(d.job.idempotency_key is not None for d in drafts):
            raise IdempotencyConflict("the batch uses one idempotency key for two jobs")
        owners = await self._store.holders(keys)
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

    async def _superseded(self, old: Job, new: Job, caller: Caller) -> list[Change]:
        dependents = await self._store.dependents(old.id)
        await self._refuse_circle(new, {job.id for job in dependents})
        return supersede(old, new, dependents, by=caller.actor, now=self._clock.now())

    async def _refuse_circle(self, new: Job, dependents: set[str]) -> None:
        """The old job's dependents will wait for the new one: it must not wait for any of them."""
        seen: set[str] = set()
        look = set(new.deps)
        while look and len(seen) < WALK_MAX:
            if circle := look & dependents:
                raise Cycle([new.name, *sorted(circle), new.name])
            seen |= look
            found = await self._store.jobs(look)
            look = {dep for job in found.values() for dep in job.deps} - seen

    async def _deps(
        self, drafts: Sequence[Draft], known: Mapping[str, Job]
    ) -> Mapping[tuple[str, str], Job]:
        """The jobs that drafts depend on: same batch, then unfinished, then newest finished.

        Whoever names a job that the batch supersedes means the one that takes its place.
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
                    for w in d.wants
                    if (w, d.job.product_id) in batch
                ]
                for d in drafts
            }
        )
        found: dict[tuple[str, str], Job] = dict(batch)
        faults = []
        for made in drafts:
            for want in made.wants:
                place = (want, made.job.product_id)
                job = found.get(place) or await self._find(made.job.product_id, want)
                if job is None:
                    message = f"there is no job {want!r} in product {made.job.product_id!r}"
                    faults.append(Fault("deps", message))
                else:
                    found[place] = job
        if faults:
            raise Invalid("the manifest", faults)
        return found

    async def _find(self, product: str, name: str) -> Job | None:
        owner = await self._store.holders({f"name/{product}/{name}"})
        for job_id in (*owner.values(), name):
            job = await self._store.job(job_id)
            if job is not None and job.product_id == product:
                return job
        newest = await self._store.find(JobQuery(products=(product,), name=name, limit=1))
        return newest[0] if newest else None


def _replaces(new: Draft, old: Job) -> bool:
    return old.content_hash != new.job.content_hash


def _name_taken(held: Held) -> Refused:
    kind, _, rest = held.key.partition("/")
    if kind == "name":
        product, _, name = rest.partition("/")
        return NameTaken(
            f"an unfinished job of product {product!r} has the name {name!r} already ({held.by});"
            " choose another name, or cancel that job"
        )
    return IdempotencyConflict(f"another request is using {held.key} at this moment ({held.by})")
