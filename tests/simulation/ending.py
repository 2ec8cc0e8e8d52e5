"""Promise 10, judged on how things stand: who still waits for something that nobody can name."""

from collections.abc import Iterator, Sequence

from gigafactory.domain.job import Job
from gigafactory.store.memory import MemoryStore
from tests.simulation.factories import Machine

OVER = {"shipped", "failed", "dead_letter", "cancelled"}


def unsettled(store: MemoryStore, machines: Sequence[Machine]) -> list[str]:
    """The jobs with which something should still happen by itself, each with what that is."""
    jobs = store._jobs  # noqa: SLF001 - the judge looks on from outside
    return [
        f"{job.name} ({job.id}) is {job.stage} since {job.stage_since:%H:%M:%S} and {what}"
        for job in jobs.values()
        for what in _due(job, jobs, machines)
    ]


def _due(job: Job, jobs: dict[str, Job], machines: Sequence[Machine]) -> Iterator[str]:
    if job.ending:
        yield f"still holds what {len(job.ending)} leases had that were taken away"
    if job.lease is not None:
        yield f"is leased to {job.lease.factory_id} until {job.lease.expires_at:%H:%M:%S}"
    elif job.stage in {"assigned", "building"}:
        yield "has no lease"
    elif job.stage == "blocked":
        yield from _blocked(job, [jobs[dep] for dep in job.deps])
    elif job.stage == "queued" and (able := _able(job, machines, ship=False)):
        yield f"could run on {', '.join(able)}"
    elif job.stage == "testing" and job.ship and (able := _able(job, machines, ship=True)):
        yield f"could be shipped by {', '.join(able)}"


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
