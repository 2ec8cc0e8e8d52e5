"""What an engine's failure means for the job: exactly one class of result."""

from datetime import datetime

from gigafactory.domain.job import Result
from gigafactory.engines.engine import Failure, Trouble
from gigafactory.factory.assignment import Outcome

RESULTS = {
    Trouble.AUTH: Result.ENGINE_UNAVAILABLE,
    Trouble.BILLING: Result.ENGINE_UNAVAILABLE,
    Trouble.RATE_LIMIT: Result.RATE_LIMITED,
    Trouble.ALLOWANCE: Result.RATE_LIMITED,
    Trouble.OVERLOADED: Result.OVERLOADED,
    Trouble.SERVER: Result.OVERLOADED,
    Trouble.NETWORK: Result.OVERLOADED,
    Trouble.CONTEXT: Result.CONTEXT_TOO_LONG,
    Trouble.PERMISSION: Result.CRASH,
    Trouble.TURN_LIMIT: Result.BUDGET_EXCEEDED,
    Trouble.BUDGET_LIMIT: Result.BUDGET_EXCEEDED,
    Trouble.KILLED: Result.CRASH,
    Trouble.NO_END: Result.CRASH,
    Trouble.UNKNOWN_SESSION: Result.CRASH,
    Trouble.CRASH: Result.CRASH,
}
"""Trouble of the engine itself sends the job back unharmed; the rest is the job's own."""


def outcome_of(engine: str, failure: Failure, *, now: datetime) -> Outcome:
    """How a run ends whose engine has failed so."""
    wait = (failure.until - now).total_seconds() if failure.until is not None else None
    return Outcome(
        result=RESULTS[failure.kind],
        reason=f"{engine}: {failure.message.strip() or failure.kind}"[:2000],
        retry_after_s=None if wait is None else max(0.0, wait),
    )
