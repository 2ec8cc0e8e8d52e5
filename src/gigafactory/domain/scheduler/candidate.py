"""A job on a factory that could have it, in the order of how well the two fit."""

from typing import NamedTuple

from gigafactory.domain.fleet.matching import EngineChoice
from gigafactory.domain.fleet.pool import Member
from gigafactory.domain.queue.queued_job import QueuedJob


class Candidate(NamedTuple):
    """A job on a factory that could have it; the lesser is the better one.

    Best score, then oldest, then lowest cost class, then ids: nothing after them is ever compared.
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
        """Make the candidate of a job and a factory that fit so well."""
        factory = member.factory
        order = (-score, job.created, factory.cost_class, job.job_id, factory.id)
        return Candidate(*order, job, member, choice)

    @property
    def score(self) -> float:
        """How well the two fit."""
        return -self.penalty
