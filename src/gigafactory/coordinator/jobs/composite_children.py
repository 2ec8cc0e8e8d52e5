"""Reconcile submitted children with existing ones: keep, replace, adopt; refuse cycles."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gigafactory.coordinator.core.ports import Clock, JobQuery, Store
from gigafactory.coordinator.core.subtree import children, subtree
from gigafactory.domain.composite.composite import add_children, first_phase
from gigafactory.domain.errors import Cycle, Fault, Invalid
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import FINAL, Job, Result, Roadmap, Stage
from gigafactory.domain.job.operator_actions import cancel
from gigafactory.domain.manifest.job_file import CHILDREN_MAX
from gigafactory.domain.submission.children import refuse_waiting_cycles
from gigafactory.domain.submission.draft import Draft
from gigafactory.domain.submission.replanning import adopt_child, compare_plan, replace_child

UNFINISHED = tuple(stage for stage in Stage if stage not in FINAL)
WALK_MAX = 10_000
"""Jobs visited at most in the search for a cycle through a composite."""


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """How the drafts of a submission relate to existing composites and their children."""

    existing: Mapping[str, Job]
    """By draft id: the existing jobs that are kept instead."""
    dropped: frozenset[str]
    """Ids of drafts that become no job: one exists already, or their composite does."""
    parents: Mapping[str, Job] = {}
    """Existing composites that get children, as they will be stored."""
    roadmaps: Mapping[str, Roadmap] = {}
    """By draft id: the initial roadmap of new composites."""
    replaced: Mapping[str, str] = {}
    """By id of a replaced child: the id of the draft that replaces it."""
    writes: tuple[JobChange, ...] = ()


class _State(msgspec.Struct):
    """What the steps of a reconciliation have decided so far."""

    existing: dict[str, Job]
    replaced: dict[str, str] = msgspec.field(default_factory=dict)
    counts: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """By composite id: how many of its children are kept and replaced."""
    writes: list[JobChange] = msgspec.field(default_factory=list)


class ChildReconciler:
    """Reconciles drafts with the children that composites already have."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def reconcile(
        self, drafts: Sequence[Draft], known: Mapping[str, Job], *, by: str
    ) -> Reconciliation:
        """Decide which drafts become jobs; `known` maps resubmitted drafts to their jobs.

        Raises Invalid for too many children, IllegalTransition for a composite that takes none.
        """
        state = _State(dict(known))
        if not any(d.job.composite or d.job.parent_id for d in drafts):
            return Reconciliation(existing=state.existing, dropped=frozenset(state.existing))
        drafted = {d.job.id for d in drafts}
        parent_ids = {d.job.parent_id for d in drafts if d.job.parent_id} - drafted
        parents = dict(await self._store.jobs(parent_ids))
        by_parent = _by_parent(drafts)
        for parent_id, parent in parents.items():
            await self._match_children(parent, by_parent[parent_id], state, by=by)
        dropped = await self._match_new_composites(drafts, by_parent, state, by=by)
        fresh = [d for d in drafts if d.job.id not in dropped]
        children_of = _by_parent(fresh)
        extended = self._extend(parents, children_of, state, by=by)
        return Reconciliation(
            existing=state.existing,
            dropped=frozenset(dropped),
            parents=parents | {change.after.id: change.after for change in extended},
            roadmaps={
                d.job.id: _initial_roadmap([c.job for c in children_of.get(d.job.id, ())])
                for d in fresh
                if d.job.composite
            },
            replaced=state.replaced,
            writes=(*extended, *state.writes),
        )

    async def _match_children(
        self, parent: Job, drafts: Sequence[Draft], state: _State, *, by: str
    ) -> None:
        """Keep, replace or adopt existing jobs for the drafts of an existing composite."""
        current = await children(self._store, {parent.id})
        drafts = [d for d in drafts if d.job.id not in state.existing]
        comparison = compare_plan(drafts, current)
        state.existing |= comparison.kept
        state.counts[parent.id] = {
            "kept": len(comparison.kept),
            "replaced": len(comparison.replaced),
        }
        live = sum(child.superseded_by is None and not child.planner for child in current)
        _require_child_count(live - len(comparison.replaced) + len(drafts) - len(comparison.kept))
        for new_id, old in comparison.replaced.items():
            state.replaced[old.id] = new_id
            state.writes += await self._replace(old, new_id, by=by)
        names = {child.name for child in current}
        unknown = [d for d in drafts if d.job.name not in names]
        if unknown:
            self._adopt(unknown, await self._shipped_before(parent), state, by=by)

    async def _match_new_composites(
        self,
        drafts: Sequence[Draft],
        by_parent: Mapping[str, Sequence[Draft]],
        state: _State,
        *,
        by: str,
    ) -> set[str]:
        """Adopt shipped jobs into new composites; return the ids of all drafts to drop."""
        dropped = set(state.existing)
        for draft in drafts:
            if draft.job.parent_id in dropped:
                dropped.add(draft.job.id)
            elif draft.job.composite and draft.job.id not in dropped:
                shipped = await self._shipped_before(draft.job) if draft.has_given_name else ()
                dropped |= self._adopt(by_parent.get(draft.job.id, []), shipped, state, by=by)
        return dropped

    def _adopt(
        self, drafts: Sequence[Draft], shipped: Sequence[Job], state: _State, *, by: str
    ) -> set[str]:
        """Adopt the shipped jobs that these drafts would repeat; return the drafts' ids."""
        adopted = compare_plan(drafts, shipped).kept
        state.existing |= adopted
        now = self._clock.now()
        state.writes += [
            adopt_child(adopted[d.job.id], d.job.parent_id or "", d.job.phase, by=by, now=now)
            for d in drafts
            if d.job.id in adopted
        ]
        return set(adopted)

    def _extend(
        self,
        parents: Mapping[str, Job],
        children_of: Mapping[str, Sequence[Draft]],
        state: _State,
        *,
        by: str,
    ) -> list[JobChange]:
        now = self._clock.now()
        return [
            add_children(parent, [d.job for d in new], by=by, now=now, **state.counts[parent_id])
            for parent_id, parent in parents.items()
            if (new := children_of.get(parent_id))
        ]

    async def _replace(self, old: Job, new_id: str, *, by: str) -> list[JobChange]:
        """Supersede a job and, for a composite, cancel its unfinished descendants."""
        now = self._clock.now()
        below = await subtree(self._store, old, most=CHILDREN_MAX) if not old.finished else ()
        reason = f"replaced by {new_id}"
        return [
            replace_child(old, new_id, by=by, now=now),
            *(
                cancel(each, by, reason, now=now, result=Result.SUPERSEDED)
                for each in below
                if not each.finished
            ),
        ]

    async def _shipped_before(self, composite: Job) -> Sequence[Job]:
        """Return the shipped children of the previous, finished composite of the same name."""
        if composite.rev and not await self._has_explicit_name(composite):
            return ()
        query = JobQuery(products=(composite.product_id,), name=composite.name, limit=2)
        earlier = [job for job in await self._store.find_jobs(query) if job.id != composite.id]
        for newest in earlier[:1]:
            if newest.composite and newest.finished:
                return await children(self._store, {newest.id}, (Stage.SHIPPED,))
        return ()

    async def _has_explicit_name(self, composite: Job) -> bool:
        """Whether the manifest names the composite; otherwise the name comes from the title."""
        specs = await self._store.specs({composite.id})
        return any("name" in msgspec.json.decode(spec.manifest) for spec in specs.values())

    async def refuse_cycles(
        self, fresh: Sequence[Draft], deps: Mapping[tuple[str, str], Job], plan: Reconciliation
    ) -> None:
        """Refuse new jobs that would wait for each other, or for a composite that waits for them.

        Raises Cycle.
        """
        if not any(d.job.composite or d.job.parent_id for d in fresh):
            return
        wanted = {d.job.id: [deps[w, d.job.product_id] for w in d.deps] for d in fresh}
        jobs = [d.job for d in fresh]
        ids = {job.id for job in jobs}
        above = {job.parent_id for job in jobs if job.parent_id} - ids
        unfinished = await children(self._store, above, UNFINISHED)
        siblings = [job for job in unfinished if job.id not in plan.replaced]
        parents = [plan.parents[parent_id] for parent_id in sorted(above)]
        waits = {
            job.id: [dep.id for dep in named_deps]
            for job, named_deps in zip(jobs, wanted.values(), strict=True)
        }
        waits |= {job.id: [plan.replaced.get(dep, dep) for dep in job.deps] for job in siblings}
        refuse_waiting_cycles([*parents, *jobs, *siblings], waits)
        if above:
            outside = {dep.id for named_deps in wanted.values() for dep in named_deps} - ids
            await self._refuse_waiting_for_parents(above, outside)

    async def _refuse_waiting_for_parents(self, parents: set[str], look: set[str]) -> None:
        """Refuse dependencies of new children that wait, directly or not, for their composite."""
        above = await self._with_ancestors(parents)
        seen: set[str] = set()
        while look and len(seen) < WALK_MAX:
            if circle := look & above.keys():
                name = above[min(circle)].name
                raise Cycle([name, "its new children", name])
            seen |= look
            dep_jobs = (await self._store.jobs(look)).values()
            gates = await self._with_ancestors({job.parent_id for job in dep_jobs if job.parent_id})
            below = await children(self._store, {job.id for job in dep_jobs if job.composite})
            look = {dep for job in (*dep_jobs, *gates.values()) for dep in job.deps}
            look = (look | {job.id for job in below}) - seen

    async def _with_ancestors(self, ids: set[str]) -> dict[str, Job]:

        above: dict[str, Job] = {}
        while ids - above.keys():
            parent_jobs = await self._store.jobs(ids - above.keys())
            above |= parent_jobs
            ids = {job.parent_id for job in parent_jobs.values() if job.parent_id}
        return above


def _initial_roadmap(children: Sequence[Job]) -> Roadmap:
    # Revision 0: the only child is a planner, so there is no plan yet.
    planning = bool(children) and all(child.planner for child in children)
    return Roadmap(0 if planning else 1, first_phase(children))


def _by_parent(drafts: Iterable[Draft]) -> dict[str, list[Draft]]:
    groups: dict[str, list[Draft]] = {}
    for made in drafts:
        if made.job.parent_id is not None:
            groups.setdefault(made.job.parent_id, []).append(made)
    return groups


def _require_child_count(count: int) -> None:
    if count > CHILDREN_MAX:
        message = f"found {count} children with existing ones; expected at most {CHILDREN_MAX}"
        raise Invalid("the plan", [Fault("children", message)])
