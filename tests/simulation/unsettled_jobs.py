"""Promise 10, checked at the end: jobs that still wait without a known reason."""

from collections.abc import Iterator, Sequence

from gigafactory.domain.job.job import Job
from gigafactory.store.memory import MemoryStore
from tests.simulation.factories import Machine

FINISHED = {"shipped", "failed", "dead_letter", "cancelled"}


def unsettled(store: MemoryStore, machines: Sequence[Machine]) -> list[str]:
    """Return the jobs on which the coordinator should still act, each with the missing action."""
    jobs = store._jobs  # noqa: SLF001 - the checker reads internal state
    return [
        f"{job.name} ({job.id}) is {job.stage} since {job.stage_since:%H:%M:%S} and {action}"
        for job in jobs.values()
        for action in (*_missing_actions(job, jobs, machines), *_missing_end(job, jobs))
    ]


def _missing_actions(job: Job, jobs: dict[str, Job], machines: Sequence[Machine]) -> Iterator[str]:
    if job.ending:
        yield f"still holds the keys of {len(job.ending)} revoked leases"
    if job.lease is not None:
        yield f"is leased to {job.lease.factory_id} until {job.lease.expires_at:%H:%M:%S}"
    elif job.stage in {"assigned", "building"} and job.kind == "leaf":
        yield "has no lease"
    elif job.stage == "blocked" and _is_admitted(job, jobs):
        yield from _blocked(job, [jobs[dep] for dep in job.deps])
    elif job.kind == "composite" and job.stage != "testing":
        yield from _composite(job, [each for each in jobs.values() if each.parent_id == job.id])
    elif (
        job.stage == "queued"
        and _is_admitted(job, jobs)
        and (able := _able_machines(job, machines, ship=False))
    ):
        yield f"could run on {', '.join(able)}"
    elif job.stage == "testing" and job.ship and (able := _able_machines(job, machines, ship=True)):
        yield f"could be shipped by {', '.join(able)}"


def _is_admitted(job: Job, jobs: dict[str, Job]) -> bool:
    """Return whether the job's composite, if any, admits it now."""
    parent = jobs.get(job.parent_id or "")
    if parent is None:
        return True
    opened = parent.roadmap.phase if parent.roadmap else None
    waits = job.phase is not None and opened is not None and job.phase > opened
    return (
        parent.stage in {"queued", "building"} and not waits and "over_budget" not in parent.flags
    )


def _missing_end(job: Job, jobs: dict[str, Job]) -> Iterator[str]:
    parent = jobs.get(job.parent_id or "")
    if parent is not None and parent.stage in FINISHED - {"shipped"} and job.stage not in FINISHED:
        yield f"should end, because {parent.name} is {parent.stage}"


def _composite(job: Job, children: Sequence[Job]) -> Iterator[str]:
    live = [child for child in children if child.superseded_by is None]
    left = [child for child in live if child.stage != "shipped"]
    started = any(child.stage not in {"blocked", "queued", "cancelled"} for child in live)
    if job.stage == "queued" and started:
        yield "should be building, because a child has started"
    if job.stage != "building" or "over_budget" in job.flags:
        return
    if live and not left:
        yield "should advance, because all of its children have shipped"
    opened = job.roadmap.phase if job.roadmap else None
    later = [child.phase for child in left if child.phase is not None]
    if opened is not None and later and min(later) > opened:
        yield f"should open phase {min(later)}"


def _blocked(job: Job, deps: Sequence[Job]) -> Iterator[str]:
    met = {"shipped", "testing"} if job.terms.deps_mode == "soft" else {"shipped"}
    if job.terms.schedule is not None:
        return
    if all(dep.stage in met for dep in deps):
        yield "should be queued, because its dependencies are met"
    lost = [dep.name for dep in deps if dep.stage in FINISHED - {"shipped"}]
    if lost and job.terms.on_dep_failure == "fail":
        yield f"should fail, because {', '.join(lost)} ended"
    if lost and job.terms.on_dep_failure == "wait" and "dep_failed" not in job.flags:
        yield f"is not flagged, though {', '.join(lost)} ended"
    if not lost and "dep_failed" in job.flags:
        yield "is flagged, though no dependency has ended"


def _able_machines(job: Job, machines: Sequence[Machine], *, ship: bool) -> list[str]:
    """Return the machines that can run the job according to its manifest."""
    return [
        machine.id
        for machine in machines
        if machine.running
        and ({"*", job.product_id} & set(machine.spec.products))
        and (ship or set(job.ask.needs) <= set(machine.spec.capabilities))
        and (
            ship or (job.ask.engine or "claude") in machine.spec.engines or _accepts_any_engine(job)
        )
    ]


def _accepts_any_engine(job: Job) -> bool:
    """Return whether the job accepts any engine."""
    return job.ask.engine is None
