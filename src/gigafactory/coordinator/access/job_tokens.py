"""Job tokens: what the agent of a run may ask of the fleet while the run lasts."""

from datetime import timedelta

from gigafactory.coordinator.access.tokens import IssuedToken, Tokens
from gigafactory.coordinator.core.audit import require_stored
from gigafactory.coordinator.core.committer import Committer
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.job.lease import require_lease
from gigafactory.domain.tenancy.access import Caller, TokenKind

LASTS = timedelta(days=2)
"""When the record of a token may be deleted; the token itself ends with its lease."""


class JobTokens:
    """Issues tokens to workers for the agents that they start."""

    def __init__(self, committer: Committer, workers: WorkerWrites, tokens: Tokens) -> None:
        """Make tokens for what these workers hold."""
        self._committer = committer
        self._workers = workers
        self._tokens = tokens

    async def issue(self, caller: Caller, job_id: str, epoch: int) -> IssuedToken:
        """Issue a token for the run of a job at this epoch.

        Raises Fenced, NotFound, Forbidden for anybody but the worker.
        """
        async with self._workers.fenced(caller, job_id, epoch):
            job = await self._workers.require_job(caller, job_id)
            require_lease(job, caller.factory_id or "", epoch)
        made = self._tokens.build(
            TokenKind.JOB,
            job.id,
            by=caller.actor,
            products=(job.product_id,),
            lasts=LASTS,
            epoch=epoch,
        )
        # No event: the agent's own actions are recorded under the job's name.
        verdict = await self._committer.commit(
            caller.actor, "job-token", RecordChange(before=None, after=made.token), epoch=epoch
        )
        require_stored(verdict, "the token could not be stored; ask again")
        return made
