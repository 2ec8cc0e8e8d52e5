"""Turn submitted job files into drafts: resolve product, profile, repo and composite."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from gigafactory.coordinator.core.ports import Clock, Ids, JobQuery, Store, all_records
from gigafactory.coordinator.jobs.profiles import ProfileCatalog
from gigafactory.domain.errors import Fault, Forbidden, Invalid, RepoNotOwned
from gigafactory.domain.job.job import Job
from gigafactory.domain.manifest.manifest import Manifest
from gigafactory.domain.manifest.profile import Profile
from gigafactory.domain.submission.children import FAULTS_MAX, ExpandedJob, field_path
from gigafactory.domain.submission.draft import Draft, draft
from gigafactory.domain.tenancy.access import Caller
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT, Product

REPOS_SHOWN_MAX = 5
DRAFTED_AT_ONCE = 200


class Drafter:
    """Creates drafts; shared lookups are made once per submission."""

    def __init__(self, store: Store, clock: Clock, ids: Ids, profiles: ProfileCatalog) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._profiles = profiles

    async def draft_all(
        self, caller: Caller, expanded: Sequence[ExpandedJob], under: Job | None
    ) -> list[Draft]:
        """Draft every entry; top-level entries become children of `under`, if given.

        Raises Forbidden; Invalid or RepoNotOwned with the faults of all entries.
        """
        lookups = _LookupCache(self._store, self._profiles)
        now = self._clock.now()
        made: list[Draft] = []
        faults: list[Fault] = []
        first: Invalid | None = None
        products: list[str] = []
        ids = [self._ids.new(now) for _ in expanded]
        for number, (job_id, source) in enumerate(zip(ids, expanded, strict=True)):
            if number % DRAFTED_AT_ONCE == DRAFTED_AT_ONCE - 1:
                # A plan of ten thousand jobs takes a second.
                await asyncio.sleep(0)
            wanted = source.file.manifest.product or caller.product or DEFAULT_PRODUCT
            above = under.product_id if under is not None else wanted
            product = above if source.parent is None else products[source.parent]
            products.append(product)
            try:
                _require_access(caller, product)
                profile = await lookups.profile(product, source.file.manifest.profile)
                parent_id = under.id if under is not None else None
                if source.parent is not None:
                    parent_id = ids[source.parent]
                elif parent_id is None:
                    parent_id = await lookups.parent(product, source.file.manifest.parent)
                each = draft(
                    source.file,
                    profile,
                    job_id=job_id,
                    product=product,
                    by=caller.actor,
                    now=now,
                    parent_id=parent_id,
                )
                await lookups.require_owned(caller, product, source.file.manifest)
                made.append(each)
            except Invalid as wrong:
                first = first or wrong
                faults += [
                    replace(f, field=field_path(source.place, f.field)) for f in wrong.faults
                ]
        if first is not None:
            # A composite and its planner have the same location: report their faults once.
            unique = list(dict.fromkeys(faults))
            is_single = len(expanded) == 1 and not expanded[0].place
            raise first if is_single else type(first)("the plan", unique[:FAULTS_MAX])
        return made


class _LookupCache:
    """Lookups made for the drafts of one submission."""

    def __init__(self, store: Store, profiles: ProfileCatalog) -> None:
        self._store = store
        self._profiles = profiles
        self._found: dict[tuple[str, str | None], Profile | None] = {}
        self._products: dict[str, Product | None] = {}
        self._parents: dict[tuple[str, str], str] = {}

    async def profile(self, product: str, reference: str | None) -> Profile | None:
        key = (product, reference)
        if key not in self._found:
            self._found[key] = await self._profiles.resolve(product, reference)
        return self._found[key]

    async def require_owned(self, caller: Caller, product_id: str, manifest: Manifest) -> None:
        if product_id not in self._products:
            self._products[product_id] = await self._store.record(Product, product_id)
        product = self._products[product_id]
        if product is None or not product.repos:
            return
        repo, cwd = manifest.repo, manifest.cwd
        if cwd is not None and not product.lists_folder(cwd):
            message = f"{cwd!r} is not in a repo that product {product_id!r} lists by its path"
            raise RepoNotOwned("the manifest", [Fault("cwd", message)])
        if repo is None or product.lists(repo):
            return
        products = await all_records(self._store, Product)
        owner = next((p.id for p in products if caller.can_see(p.id) and p.lists(repo)), None)
        listed = ", ".join(product.repos[:REPOS_SHOWN_MAX])
        ownership = f"it belongs to product {owner!r}" if owner else f"its repos are {listed}"
        message = f"{repo!r} is not a repo of product {product_id!r}; {ownership}"
        raise RepoNotOwned("the manifest", [Fault("repo", message)])

    async def parent(self, product: str, reference: str | None) -> str | None:
        if reference is None:
            return None
        if (product, reference) not in self._parents:
            job = await find_by_name(self._store, product, reference)
            if job is None:
                message = f"there is no job {reference!r} in product {product!r}"
                raise Invalid("the manifest", [Fault("parent", message)])
            if not job.composite:
                message = f"{reference!r} is a leaf; only `kind: composite` has children"
                raise Invalid("the manifest", [Fault("parent", message)])
            self._parents[product, reference] = job.id
        return self._parents[product, reference]


def _require_access(caller: Caller, product: str) -> None:
    if not caller.can_see(product):
        covered = ", ".join(caller.products)
        raise Forbidden(f"{caller.actor} has no access to product {product!r}, only to {covered}")


async def find_by_name(store: Store, product: str, name: str) -> Job | None:
    """Return the job of a product by name or id: the unfinished one, else the newest."""
    owner = await store.key_owners({f"name/{product}/{name}"})
    for job_id in (*owner.values(), name):
        job = await store.job(job_id)
        if job is not None and job.product_id == product:
            return job
    newest = await store.find_jobs(JobQuery(products=(product,), name=name, limit=1))
    return newest[0] if newest else None
