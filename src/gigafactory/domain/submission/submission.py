"""Submit jobs, resolve and re-evaluate their dependencies, and supersede them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from gigafactory.domain.errors import Cycle, IdempotencyConflict
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import Guard, JobChange, RevisionGuard
from gigafactory.domain.job.job import FINAL, Job, JobSpec, Result, Stage
from gigafactory.domain.job.lifecycle import composite_key, make_events, name_key, transition
from gigafactory.domain.job.operator_actions import cancel

DEP_FAILED = "dep_failed"
"""Flag: a dependency of the blocked job finished without being shipped."""
DEP_MISSING = "dep_missing"
"""Flag: a dependency of the blocked job does not exist yet."""


def idempotency_hold(product_id: str, key: str) -> str:
    """Return the unique key of an idempotency key: one job per product and key."""
    return f"key/{product_id}/{key}"


def is_satisfied(dep: Job, mode: str) -> bool:
    """Return whether a dependency is satisfied: shipped, or in testing for mode `soft`."""
    return dep.stage is Stage.SHIPPED or (mode == "soft" and dep.stage is Stage.TESTING)


def is_unsatisfiable(dep: Job) -> bool:
    """Return whether a dependency finished without being shipped; only a requeue helps then."""
    return dep.stage in FINAL and dep.stage is not Stage.SHIPPED


def submit(
    job: Job,
    spec: JobSpec,
    deps: Sequence[Job],
    *,
    actor: str,
    now: datetime,
    missing: Sequence[str] = (),
    parent: Job | None = None,
) -> JobChange:
    """Submit a new job: queued, or blocked by open dependencies or by its composite.

    Guarded by the revisions of the dependencies, so that none ships unnoticed in between; those of
    the same batch have revision 0 and need no guard. `missing` are names of jobs to come.
    """
    mode = job.terms.deps_mode
    open_deps = [*(dep.id for dep in deps if not is_satisfied(dep, mode)), *missing]
    template = job.terms.schedule is not None
    gated = parent is not None and not admits(parent, job)
    stage = Stage.BLOCKED if open_deps or template or gated else Stage.QUEUED
    lost = any(is_unsatisfiable(dep) for dep in deps)
    notes: list[tuple[str, dict[str, Any]]] = [
        (
            event_types.SUBMITTED,
            {"by": actor, "priority": job.priority, "contentHash": job.content_hash},
        )
    ]
    if open_deps or gated:
        phase = {"parent": job.parent_id, "phase": job.phase} if gated else {}
        notes.append((event_types.BLOCKED, {"deps": open_deps, **phase}))
    new = msgspec.structs.replace(
        job,
        stage=stage,
        seq=len(notes),
        rev=1,
        updated_at=now,
        deps=(*job.deps, *missing),
        flags=_with_dep_flags(job.flags, lost=lost, missing=bool(missing)),
    )
    guards: tuple[Guard, ...] = tuple(
        RevisionGuard("job", dep.id, dep.rev) for dep in deps if dep.rev > 0
    )
    keys = (idempotency_hold(job.product_id, job.idempotency_key),) if job.idempotency_key else ()
    return JobChange(
        before=None,
        after=new,
        events=make_events(new, 0, tuple(notes), actor=actor, at=now),
        spec=spec,
        take=(name_key(job), *keys, *((composite_key(job.id),) if job.composite else ())),
        guards=guards,
    )


def _with_dep_flags(flags: tuple[str, ...], *, lost: bool, missing: bool) -> tuple[str, ...]:
    more = (*((DEP_FAILED,) if lost else ()), *((DEP_MISSING,) if missing else ()))
    return (*(flag for flag in flags if flag not in more), *more)


def resolve_names(
    job: Job, ids: Mapping[str, str], missing: Sequence[str], now: datetime
) -> JobChange | None:
    """Replace names of new jobs by their ids in the dependencies of a blocked job.

    `missing` are the names that still do not exist.
    """
    deps = tuple(dict.fromkeys(ids.get(dep, dep) for dep in job.deps))
    if job.stage is not Stage.BLOCKED or deps == job.deps:
        return None
    note = (event_types.BLOCKED, {"deps": list(deps), "missing": list(missing)})
    flags = tuple(flag for flag in job.flags if flag != DEP_MISSING or missing)
    return transition(job, None, note, actor="system:unblocker", now=now, deps=deps, flags=flags)


def reevaluate(
    job: Job, deps: Sequence[Job], *, now: datetime, parent: Job | None = None
) -> JobChange | None:
    """Re-evaluate a blocked job against its dependencies and its composite.

    Queued if all are satisfied; failed or flagged if one cannot be; None if nothing changes.
    """
    if job.stage is not Stage.BLOCKED or job.terms.schedule is not None:
        return None
    looked_at = (*deps, *((parent,) if parent else ()))
    guards: tuple[Guard, ...] = tuple(RevisionGuard("job", each.id, each.rev) for each in looked_at)
    if any(dep.superseded_by for dep in deps):
        return _follow_superseded(job, deps, now=now)
    open_deps = [dep.id for dep in deps if not is_satisfied(dep, job.terms.deps_mode)]
    # A dependency that could not be read counts as open.
    let_in = parent is None or admits(parent, job)
    if not open_deps and let_in and {dep.id for dep in deps}.issuperset(job.deps):
        return transition(
            job,
            Stage.QUEUED,
            (event_types.UNBLOCKED, {"deps": list(job.deps)}),
            actor="system:unblocker",
            now=now,
            guards=guards,
            flags=_without_dep_failed(job.flags),
        )
    lost = [dep.id for dep in deps if is_unsatisfiable(dep)]
    if lost and job.terms.on_dep_failure == "fail":
        reason = "these dependencies ended without being shipped: " + ", ".join(lost)
        return transition(
            job,
            Stage.FAILED,
            (event_types.FAILED, {"result": Result.DEP_FAILED, "deps": lost}),
            actor="system:unblocker",
            now=now,
            guards=guards,
            flags=_without_dep_failed(job.flags),
            result=Result.DEP_FAILED,
            reason=reason,
        )
    flags = (
        (*_without_dep_failed(job.flags), DEP_FAILED) if lost else _without_dep_failed(job.flags)
    )
    if flags == job.flags:
        return None
    note = (event_types.BLOCKED, {"deps": open_deps, "lost": lost})
    return transition(
        job, None, note, actor="system:unblocker", now=now, guards=guards, flags=flags
    )


def _follow_superseded(job: Job, deps: Sequence[Job], *, now: datetime) -> JobChange:
    """Replace superseded dependencies by their successors."""
    newer = {dep.id: dep.superseded_by or dep.id for dep in deps}
    now_waits_for = tuple(dict.fromkeys(newer.get(dep, dep) for dep in job.deps))
    note = (event_types.BLOCKED, {"deps": list(now_waits_for), "superseded": list(newer)})
    return transition(job, None, note, actor="system:unblocker", now=now, deps=now_waits_for)


def _without_dep_failed(flags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(flag for flag in flags if flag != DEP_FAILED)


def supersede(
    old: Job, new: Job, dependents: Sequence[Job], *, by: str, now: datetime
) -> list[JobChange]:
    """Supersede a waiting job by a newer one with the same idempotency key; its dependents follow.

    Raises IdempotencyConflict for a job that is not waiting any more.
    """
    if old.stage not in {Stage.QUEUED, Stage.BLOCKED}:
        raise IdempotencyConflict(
            f"job {old.id} has the same idempotency key and other content, and is {old.stage};"
            " only a queued or blocked job is superseded: use a new key"
        )
    ended = cancel(old, by, f"superseded by {new.id}", now=now, result=Result.SUPERSEDED)
    assert old.idempotency_key is not None, "only a job with a key is superseded"
    freed = (*ended.free, idempotency_hold(old.product_id, old.idempotency_key))
    after = msgspec.structs.replace(ended.after, superseded_by=new.id)
    changes = [msgspec.structs.replace(ended, after=after, free=freed)]
    for job in dependents:
        deps = tuple(new.id if dep == old.id else dep for dep in job.deps)
        note = (event_types.BLOCKED, {"deps": list(deps), "superseded": old.id})
        changes.append(transition(job, None, note, actor=by, now=now, deps=deps))
    return changes


def find_cycle(edges: Mapping[str, Sequence[str]]) -> list[str] | None:
    """Return a cycle of a graph, from its smallest member back to it; None if there is none."""
    done: set[str] = set()
    for root in sorted(edges):
        if root in done:
            continue
        # The path from the root, each node with its unvisited successors.
        path = {root: iter(edges[root])}
        while path:
            node, rest = next(reversed(path.items()))
            following = next((n for n in rest if n in edges and n not in done), None)
            if following is None:
                del path[node]
                done.add(node)
            elif following in path:
                return _rotate_cycle(list(path), following)
            else:
                path[following] = iter(edges[following])
    return None


def _rotate_cycle(path: list[str], closing: str) -> list[str]:
    circle = path[path.index(closing) :]
    first = circle.index(min(circle))
    return [*circle[first:], *circle[:first], circle[first]]


def refuse_cycles(edges: Mapping[str, Sequence[str]]) -> None:
    """Refuse a batch whose dependencies form a cycle.

    Raises Cycle.
    """
    if circle := find_cycle(edges):
        raise Cycle(circle)


def admits(parent: Job, child: Job) -> bool:
    """Return whether the composite allows the child to start."""
    if not parent.composite:
        return True
    if parent.stage not in {Stage.QUEUED, Stage.BUILDING} or parent.over_budget:
        return False
    opened = parent.roadmap.phase if parent.roadmap else None
    return child.phase is None or opened is None or child.phase <= opened
