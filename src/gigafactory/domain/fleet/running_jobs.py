"""Running jobs by factory: which could be preempted, and which have been asked to hand back."""

from collections.abc import Iterable

from gigafactory.domain.job.job import RUNNING, Job, Step
from gigafactory.domain.manifest.engine_ref import base_engine

PREEMPTIONS_MAX = 2
"""A job preempted this often is not preempted again."""
JOB_ACTOR_PREFIX = "job:"


def preempting_actor(job_id: str) -> str:
    """Return the actor name under which a job preempts another."""
    return JOB_ACTOR_PREFIX + job_id


def may_preempt(victim: Job, rank: int) -> bool:
    """Return whether a job may be preempted for one of this rank."""
    lease = victim.lease
    return (
        lease is not None
        and lease.step is Step.RUN
        and victim.stage in RUNNING
        and victim.priority.rank > rank
        and victim.preempted < PREEMPTIONS_MAX
        and victim.preemption is None
    )


def engine_seat_of(job: Job) -> str | None:
    """Return the engine whose seat a running job takes; None without one."""
    engine = job.lease.engine if job.lease is not None else None
    return base_engine(engine) if engine is not None else None


class RunningJobs:
    """Every leased job, updated with every version of every job."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._at: dict[str, dict[str, Job]] = {}
        self._preempted_by_asker: dict[str, Job] = {}

    def put(self, job: Job) -> None:
        """Update with this version of a job."""
        self.forget(job.id)
        if job.lease is None:
            return
        self._jobs[job.id] = job
        self._at.setdefault(job.lease.factory_id, {})[job.id] = job
        if job.preemption is not None and job.preemption.by.startswith(JOB_ACTOR_PREFIX):
            self._preempted_by_asker[job.preemption.by.removeprefix(JOB_ACTOR_PREFIX)] = job

    def forget(self, job_id: str) -> None:
        """Remove a job that no longer runs."""
        job = self._jobs.pop(job_id, None)
        if job is None or job.lease is None:
            return
        jobs_there = self._at[job.lease.factory_id]
        del jobs_there[job_id]
        if not jobs_there:
            del self._at[job.lease.factory_id]
        by = job.preemption.by.removeprefix(JOB_ACTOR_PREFIX) if job.preemption is not None else ""
        if (preempted := self._preempted_by_asker.get(by)) is not None and preempted.id == job_id:
            del self._preempted_by_asker[by]

    def jobs(self) -> Iterable[Job]:
        """Return every running job."""
        return self._jobs.values()

    def on_factory(self, factory_id: str) -> Iterable[Job]:
        """Return the jobs that a factory runs."""
        return self._at.get(factory_id, {}).values()

    def preempted_for(self, job_id: str) -> Job | None:
        """Return the job that is being preempted for this one; None when there is none."""
        return self._preempted_by_asker.get(job_id)
