"""New children beside those that there are: what is done again, what stays, what gives way."""

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
"""How many jobs are looked at for a circle through a composite."""


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """What a submission means for composites, new ones and those that there are."""

    existing: Mapping[str, Job]
    """By the ids of drafts: the jobs that there are already, and that stay."""
    dropped: frozenset[str]
    """The drafts that become no jobs: settled, or below one that is."""
    parents: Mapping[str, Job] = {}
    """The composites that get children, as they are then."""
    roadmaps: Mapping[str, Roadmap] = {}
    replaced: Mapping[str, str] = {}
    """By the ids of children that give way: the drafts that take their place."""
    writes: tuple[JobChange, ...] = ()


class ChildReconciler:
    """Compares what is handed in with what is there."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """Look into this store."""
        self._store = store
        self._clock = clock

    async def reconcile(
        self, drafts: Sequence[Draft], known: Mapping[str, Job], *, by: str
    ) -> Reconciliation:
        """What becomes of these drafts; `known` are those that were submitted before.

        Raises Invalid for too many children, IllegalTransition for a composite that takes none.
        """
        settled = dict(known)
        if not any(d.job.composite or d.job.parent_id for d in drafts):
            return Reconciliation(existing=settled, dropped=frozenset(settled))
        ids = {d.job.id for d in drafts}
        above = {d.job.parent_id for d in drafts if d.job.parent_id} - ids
        parents = dict(await self._store.jobs(above))
        below = _by_parent(drafts)
        writes: list[JobChange] = []
        told: dict[str, dict[str, int]] = {}
        replaced: dict[str, str] = {}
        for parent_id, parent in parents.items():
            there = await children(self._store, {parent_id})
            mine = [d for d in below[parent_id] if d.job.id not in settled]
            found = compare_plan(mine, there)
            settled |= found.kept
            told[parent_id] = {"kept": len(found.kept), "replaced": len(found.replaced)}
            live = sum(child.superseded_by is None and not child.planner for child in there)
            _require_child_count(live - len(found.replaced) + len(mine) - len(found.kept))
            replaced |= {old.id: new_id for new_id, old in found.replaced.items()}
            for new_id, old in found.replaced.items():
                writes += await self._replace(old, new_id, by=by)
            known_names = {child.name for child in there}
            unknown = [d for d in mine if d.job.name not in known_names]
            again = (
                compare_plan(unknown, await self._shipped_before(parent)).kept if unknown else {}
            )
            settled |= again
            writes += self._adopt(unknown, again, by=by)
        dropped = set(settled)
        for made in drafts:
            if made.job.parent_id in dropped:
                dropped.add(made.job.id)
            elif made.job.composite and made.job.id not in dropped:
                mine = below.get(made.job.id, [])
                before = await self._shipped_before(made.job) if made.has_given_name else ()
                again = compare_plan(mine, before).kept
                settled |= again
                dropped |= again.keys()
                writes += self._adopt(mine, again, by=by)
        fresh = [d for d in drafts if d.job.id not in dropped]
        kept = _by_parent(fresh)
        extended = []
        for parent_id, parent in parents.items():
            new = [d.job for d in kept.get(parent_id, ())]
            if new:
                now = self._clock.now()
                extended.append(add_children(parent, new, by=by, now=now, **told[parent_id]))
        return Reconciliation(
            existing=settled,
            dropped=frozenset(dropped),
            parents=parents | {change.after.id: change.after for change in extended},
            roadmaps={
                d.job.id: _initial_roadmap([c.job for c in kept.get(d.job.id, ())])
                for d in fresh
                if d.job.composite
            },
            replaced=replaced,
            writes=(*extended, *writes),
        )

    async def _replace(self, old: Job, new_id: str, *, by: str) -> list[JobChange]:
        """A job and, with a composite, all that waits below it give way to a newer one."""
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
        """What an earlier composite of the same name, which has ended, has shipped."""
        if composite.rev and not await self._has_explicit_name(composite):
            return ()
        query = JobQuery(products=(composite.product_id,), name=composite.name, limit=2)
        earlier = [job for job in await self._store.find_jobs(query) if job.id != composite.id]
        for newest in earlier[:1]:
            if newest.composite and newest.finished:
                return await children(self._store, {newest.id}, (Stage.SHIPPED,))
        return ()

    async def _has_explicit_name(self, composite: Job) -> bool:
        """Whether somebody gave a composite its name: others have theirs from a title alone."""
        specs = await self._store.specs({composite.id})
        return any("name" in msgspec.json.decode(spec.manifest) for spec in specs.values())

    def _adopt(
        self, drafts: Iterable[Draft], again: Mapping[str, Job], *, by: str
    ) -> list[JobChange]:
        now = self._clock.now()
        return [
            adopt_child(again[d.job.id], d.job.parent_id or "", d.job.phase, by=by, now=now)
            for d in drafts
            if d.job.id in again
        ]

    async def refuse_cycles(
        self, fresh: Sequence[Draft], deps: Mapping[tuple[str, str], Job], family: Reconciliation
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
        beside = await children(self._store, above, UNFINISHED)
        beside = [job for job in beside if job.id not in family.replaced]
        parents = [family.parents[parent_id] for parent_id in sorted(above)]
        waits = {
            job.id: [dep.id for dep in found]
            for job, found in zip(jobs, wanted.values(), strict=True)
        }
        waits |= {job.id: [family.replaced.get(dep, dep) for dep in job.deps] for job in beside}
        refuse_waiting_cycles([*parents, *jobs, *beside], waits)
        if above:
            outside = {dep.id for found in wanted.values() for dep in found} - ids
            await self._refuse_waiting_for_parents(above, outside)

    async def _refuse_waiting_for_parents(self, parents: set[str], look: set[str]) -> None:
        """What new children need must not wait, in the end, for the composite that they join."""
        above = await self._with_ancestors(parents)
        seen: set[str] = set()
        while look and len(seen) < WALK_MAX:
            if circle := look & above.keys():
                name = above[min(circle)].name
                raise Cycle([name, "its new children", name])
            seen |= look
            found = (await self._store.jobs(look)).values()
            gates = await self._with_ancestors({job.parent_id for job in found if job.parent_id})
            below = await children(self._store, {job.id for job in found if job.composite})
            look = {dep for job in (*found, *gates.values()) for dep in job.deps}
            look = (look | {job.id for job in below}) - seen

    async def _with_ancestors(self, ids: set[str]) -> dict[str, Job]:
        """These composites and those that they are part of."""
        above: dict[str, Job] = {}
        while ids - above.keys():
            found = await self._store.jobs(ids - above.keys())
            above |= found
            ids = {job.parent_id for job in found.values() if job.parent_id}
        return above


def _initial_roadmap(children: Sequence[Job]) -> Roadmap:
    """How a new composite begins: with a planner alone, there is no plan yet."""
    planning = bool(children) and all(child.planner for child in children)
    return Roadmap(0 if planning else 1, first_phase(children))


def _by_parent(drafts: Iterable[Draft]) -> dict[str, list[Draft]]:
    found: dict[str, list[Draft]] = {}
    for made in drafts:
        if made.job.parent_id is not None:
            found.setdefault(made.job.parent_id, []).append(made)
    return found


def _require_child_count(count: int) -> None:
    if count > CHILDREN_MAX:
        message = f"found {count} with those that there are; expected at most {CHILDREN_MAX}"
        raise Invalid("the plan", [Fault("children", message)])
