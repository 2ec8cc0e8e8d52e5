"""The jobs that run now, by factory: who could make way, and who has been asked to."""

from collections.abc import Iterable

from gigafactory.domain.job.job import RUNNING, Job, Step
from gigafactory.domain.manifest.engine_ref import program

EVICTIONS_MAX = 2
"""A job that had to make way so often is left alone: somebody waits for it too."""
EVICTOR = "job:"


def evictor(job_id: str) -> str:
    """Give the name under which a job asks another to make way."""
    return EVICTOR + job_id


def may_evict(victim: Job, rank: int) -> bool:
    """Tell whether a job may be asked to make way for one of this rank."""
    lease = victim.lease
    return (
        lease is not None
        and lease.step is Step.RUN
        and victim.stage in RUNNING
        and victim.priority.rank > rank
        and victim.preempted < EVICTIONS_MAX
        and victim.preemption is None
    )


def program_of(job: Job) -> str | None:
    """Give the engine whose seat a running job takes; None without one."""
    engine = job.lease.engine if job.lease is not None else None
    return program(engine) if engine is not None else None


class Incumbents:
    """Every leased job, kept up by handing it every version of every job."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._at: dict[str, dict[str, Job]] = {}
        self._asking: dict[str, Job] = {}

    def put(self, job: Job) -> None:
        """Know this version of a job."""
        self.forget(job.id)
        if job.lease is None:
            return
        self._jobs[job.id] = job
        self._at.setdefault(job.lease.factory_id, {})[job.id] = job
        if job.preemption is not None and job.preemption.by.startswith(EVICTOR):
            self._asking[job.preemption.by.removeprefix(EVICTOR)] = job

    def forget(self, job_id: str) -> None:
        """Let go of a job that does not run."""
        job = self._jobs.pop(job_id, None)
        if job is None or job.lease is None:
            return
        here = self._at[job.lease.factory_id]
        del here[job_id]
        if not here:
            del self._at[job.lease.factory_id]
        by = job.preemption.by.removeprefix(EVICTOR) if job.preemption is not None else ""
        if (asked := self._asking.get(by)) is not None and asked.id == job_id:
            del self._asking[by]

    def all(self) -> Iterable[Job]:
        """Give every job that runs."""
        return self._jobs.values()

    def of(self, factory_id: str) -> Iterable[Job]:
        """Give the jobs that a factory runs."""
        return self._at.get(factory_id, {}).values()

    def making_way_for(self, job_id: str) -> Job | None:
        """Give the job that was asked to make way for this one; None when none was."""
        return self._asking.get(job_id)
