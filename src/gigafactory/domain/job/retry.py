"""Retry rules: which results are retried, which count as attempts, and the back-off between."""

import hashlib
from collections.abc import Collection, Sequence
from datetime import timedelta

from gigafactory.domain.job.job import Job, Result

DEFAULT_RETRY_ON = frozenset(
    {Result.TIMEOUT, Result.CRASH, Result.VERIFY_FAILED, Result.SETUP_FAILED, Result.OVERLOADED}
)
"""Results that are retried if the manifest does not list any."""
NEVER_RETRIED = frozenset({Result.BUDGET_EXCEEDED, Result.SCOPE_VIOLATION, Result.REJECTED})
"""Results that are not retried even if the manifest lists them."""
UNCOUNTED_RESULTS = frozenset(
    {
        Result.RATE_LIMITED,
        Result.ENGINE_UNAVAILABLE,
        Result.OVERLOADED,
        Result.PREEMPTED,
        Result.RELEASED,
        Result.LOST,
    }
)
"""Results that queue the job again without counting an attempt."""
LOST_INSTANCES_MAX = 3
"""Factory processes that were lost in a row with a run, and are not back, until it is poison."""
LOST_LEASES_MAX = 10
"""Leases lost in a row without a new checkpoint until a job is dead-lettered in any case."""
BACKOFF_MAX = timedelta(hours=1)
OVERLOAD_BACKOFF = timedelta(seconds=30)


def is_retryable(job: Job, result: Result) -> bool:
    """Return whether the job may be retried after this result, if it has attempts left."""
    terms = job.terms
    retry_on = DEFAULT_RETRY_ON if terms.retry_on is None else terms.retry_on
    return terms.retry_max > 0 and result in retry_on and result not in NEVER_RETRIED


def backoff(job: Job, attempt: int) -> timedelta:
    """Return the delay after a failed attempt: doubling, with stable jitter, capped."""
    most = BACKOFF_MAX.total_seconds()
    base = min(job.terms.retry_backoff_s, most) * (1 << min(attempt - 1, 12))
    digest = hashlib.sha256(f"{job.id}.{attempt}".encode()).digest()
    spread = 1 + int.from_bytes(digest[:4], "big") / 2**32 / 4
    return timedelta(milliseconds=int(min(base * spread, most) * 1000))


def is_poison(lost_instances: Sequence[str], live_instances: Collection[str]) -> bool:
    """Return whether a job has lost so many leases in a row that it may kill its hosts.

    A process that is alive again, or that took the job again after it had lost it, was only cut off
    from the coordinator: that is not the job's doing, and counts only towards the larger limit.
    """
    dead_instances = {instance for instance in lost_instances if instance not in live_instances}
    # An older program stored no names.
    unnamed = max(0, lost_instances.count("") - 1)
    if len(dead_instances) + unnamed >= LOST_INSTANCES_MAX:
        return True
    return len(lost_instances) >= LOST_LEASES_MAX


def hand_back_delay(result: Result, retry_after: timedelta | None) -> timedelta:
    """Return the delay after a hand-back: only an overloaded engine makes the job wait."""
    return (retry_after or OVERLOAD_BACKOFF) if result is Result.OVERLOADED else timedelta(0)
