"""Asking for the ship step: by a person, or by the policy of the job."""

from datetime import datetime

from gigafactory.domain.change import Change
from gigafactory.domain.job import Job, Result, ShipRequest, Stage
from gigafactory.domain.moves import step

POLICY = "policy"


def ask_to_ship(job: Job, by: str, *, actor: str, now: datetime) -> Change:
    """Make the job a candidate again, with step `ship`; `ship: none` leaves nothing more to do.

    Raises IllegalTransition for a job that is not in testing and has nothing to deliver.
    """
    note = ("ship_requested", {"by": by, "commit": job.head})
    if job.terms.ship == "none":
        done = ("shipped", {"commit": job.head, "ship": "none"})
        return step(
            job, Stage.SHIPPED, note, done, actor=actor, now=now, result=Result.OK, reason=None
        )
    request = ShipRequest(by=by, commit=job.head, at=now)
    return step(job, None, note, actor=actor, now=now, ship=request)
