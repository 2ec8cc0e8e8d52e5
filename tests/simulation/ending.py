"""Promise 10, checked at the end: jobs that still wait without a known reason."""

from collections.abc import Iterator, Sequence

from gigafactory.domain.job.job import Job
from gigafactory.store.memory import MemoryStore
from tests.simulation.factories import Machine

OVER = {"shipped", "failed", "dead_letter", "cancelled"}


def unsettled(store: MemoryStore, machines: Sequence[Machine]) -> list[str]:
    """The jobs with which something should still happen by itself, each with what that is."""
    jobs = store._jobs  # noqa: SLF001 - the judge looks on from outside
    return [
        f"{job.name} ({job.id}) is {job.stage} since {job.stage_since:%H:%M:%S} and {what}"
        for job in jobs.values()
        for what in (*_due(job, jobs, machines), *_due_above(job, jobs))
    ]


def _due(job: Job, jobs: dict[str, Job], machines: Sequence[Machine]) -> Iterator[str]:
    if job.ending:
        yield f"still holds what {len(job.ending)} leases had that were taken away"
    if job.lease is not None:
        yield f"is leased to {job.lease.factory_id} until {job.lease.expires_at:%H:%M:%S}"
    elif job.stage in {"assigned", "building"} and job.kind == "leaf":
        yield "has no lease"
    elif job.stage == "blocked" and _let_in(job, jobs):
        yield from _blocked(job, [jobs[dep] for dep in job.deps])
    elif job.kind == "composite" and job.stage != "testing":
        yield from _composite(job, [each for each in jobs.values() if each.parent_id == job.id])
    elif (
        job.stage == "queued" and _let_in(job, jobs) and (able := _able(job, machines, ship=False))
    ):
        yield f"could run on {', '.join(able)}"
    elif job.stage == "testing" and job.ship and (able := _able(job, machines, ship=True)):
        yield f"could be shipped by {', '.join(able)}"


def _let_in(job: Job, jobs: dict[str, Job]) -> bool:
    """Whether its composite, where it has one, goes on and has come to it."""
    above = jobs.get(job.parent_id or "")
    if above is None:
        return True
    opened = above.roadmap.phase if above.roadmap else None
    waits = job.phase is not None and opened is not None and job.phase > opened
    return above.stage in {"queued", "building"} and not waits and "over_budget" not in above.flags


def _due_above(job: Job, jobs: dict[str, Job]) -> Iterator[str]:
    above = jobs.get(job.parent_id or "")
    if above is not None and above.stage in OVER - {"shipped"} and job.stage not in OVER:
        yield f"should end, because {above.name} is {above.stage}"


def _composite(job: Job, children: Sequence[Job]) -> Iterator[str]:
    live = [child for child in children if child.superseded_by is None]
    left = [child for child in live if child.stage != "shipped"]
    started = any(child.stage not in {"blocked", "queued", "cancelled"} for child in live)
    if job.stage == "queued" and started:
        yield "should be building, because a child has started"
    if job.stage != "building" or "over_budget" in job.flags:
        return
    if live and not left:
        yield "should go on, because all of its children have shipped"
    opened = job.roadmap.phase if job.roadmap else None
    later = [child.phase for child in left if child.phase is not None]
    if opened is not None and later and min(later) > opened:
        yield f"should begin with phase {min(later)}"


def _blocked(job: Job, deps: Sequence[Job]) -> Iterator[str]:
    met = {"shipped", "testing"} if job.terms.deps_mode == "soft" else {"shipped"}
    if job.terms.schedule is not None:
        return
    if all(dep.stage in met for dep in deps):
        yield "all that it waits for is done"
    lost = [dep.name for dep in deps if dep.stage in OVER - {"shipped"}]
    if lost and job.terms.on_dep_failure == "fail":
        yield f"should fail, because {', '.join(lost)} ended"
    if lost and job.terms.on_dep_failure == "wait" and "dep_failed" not in job.flags:
        yield f"is not flagged, though {', '.join(lost)} ended"
    if not lost and "dep_failed" in job.flags:
        yield "is flagged, though nothing that it waits for has ended"


def _able(job: Job, machines: Sequence[Machine], *, ship: bool) -> list[str]:
    """The machines that could do it, as people would read the manifest."""
    return [
        machine.id
        for machine in machines
        if machine.running
        and ({"*", job.product_id} & set(machine.make.products))
        and (ship or set(job.ask.needs) <= set(machine.make.capabilities))
        and (ship or (job.ask.engine or "claude") in machine.make.engines or _any(job))
    ]


def _any(job: Job) -> bool:
    """Whether any of the simulated engines would do."""
    return job.ask.engine is None
