"""Candidates: (job, factory) pairs, ordered by score."""

from typing import NamedTuple

from gigafactory.domain.fleet.matching import EngineChoice
from gigafactory.domain.fleet.pool import Member
from gigafactory.domain.queue.queued_job import QueuedJob


class Candidate(NamedTuple):
    """A (job, factory) pair; sorts best first.

    Ordered by score, age, cost class and ids; the later fields are never compared.
    """

    penalty: float
    created: float
    cost_class: int
    job_id: str
    factory_id: str
    job: QueuedJob
    member: Member
    choice: EngineChoice

    @staticmethod
    def of(score: float, job: QueuedJob, member: Member, choice: EngineChoice) -> "Candidate":
        """Return the candidate of a job on a factory with this score."""
        factory = member.factory
        order = (-score, job.created, factory.cost_class, job.job_id, factory.id)
        return Candidate(*order, job, member, choice)

    @property
    def score(self) -> float:
        """The score; higher is better."""
        return -self.penalty
