"""Maps exceptions and engine failures to run outcomes."""

import errno
from datetime import datetime

from gigafactory.domain.errors import Forbidden, NotFound, Unavailable
from gigafactory.domain.job.job import Result
from gigafactory.engines.protocol.engine import Failure, FailureKind
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.git.errors import (
    DiskFull,
    GitNotFound,
    GitTimeout,
    PushDenied,
    RemoteForbidden,
    RemoteUnavailable,
)
from gigafactory.factory.git.remote_url import AddressRefused
from gigafactory.factory.git.secret_scan import SecretInWork
from gigafactory.factory.git.worktree import WorktreeBusy
from gigafactory.factory.sandbox.sandbox import SandboxUnavailable

DISK_FULL_ERRNOS = {errno.ENOSPC, errno.EDQUOT}
DISK_FULL = "the disk of this factory is full; free some space"


def outcome_of_exception(phase: str, error: Exception) -> RunOutcome:
    """Return the outcome of a run whose phase raised `error`."""
    reason = f"{phase}: {error}"[:2000]
    match error:
        case RemoteUnavailable() | GitTimeout() | Unavailable() | WorktreeBusy():
            # Not caused by the job: it is retried later.
            return RunOutcome(result=Result.OVERLOADED, reason=reason)
        case (
            GitNotFound()
            | RemoteForbidden()
            | PushDenied()
            | AddressRefused()
            | Forbidden()
            | NotFound()
        ):
            return RunOutcome(result=Result.SETUP_FAILED, reason=reason)
        case SecretInWork():
            return RunOutcome(result=Result.SCOPE_VIOLATION, reason=reason)
        case DiskFull() | SandboxUnavailable():
            return RunOutcome(result=Result.RELEASED, reason=reason)
        case OSError(errno=number) if number in DISK_FULL_ERRNOS:
            return RunOutcome(result=Result.RELEASED, reason=f"{phase}: {DISK_FULL}")
        case _:
            return RunOutcome(result=Result.CRASH, reason=reason)


RESULTS = {
    FailureKind.AUTH: Result.ENGINE_UNAVAILABLE,
    FailureKind.BILLING: Result.ENGINE_UNAVAILABLE,
    FailureKind.RATE_LIMIT: Result.RATE_LIMITED,
    FailureKind.ALLOWANCE: Result.RATE_LIMITED,
    FailureKind.OVERLOADED: Result.OVERLOADED,
    FailureKind.SERVER: Result.OVERLOADED,
    FailureKind.NETWORK: Result.OVERLOADED,
    FailureKind.CONTEXT: Result.CONTEXT_TOO_LONG,
    FailureKind.PERMISSION: Result.CRASH,
    FailureKind.TURN_LIMIT: Result.BUDGET_EXCEEDED,
    FailureKind.BUDGET_LIMIT: Result.BUDGET_EXCEEDED,
    FailureKind.KILLED: Result.CRASH,
    FailureKind.NO_END: Result.CRASH,
    FailureKind.UNKNOWN_SESSION: Result.CRASH,
    FailureKind.CRASH: Result.CRASH,
}
"""Failures of the engine or its service send the job back; the others count against the job."""


def outcome_of_engine_failure(engine: str, failure: Failure, *, now: datetime) -> RunOutcome:
    """Return the outcome of a run whose engine failed."""
    wait = (failure.until - now).total_seconds() if failure.until is not None else None
    return RunOutcome(
        result=RESULTS[failure.kind],
        reason=f"{engine}: {failure.message.strip() or failure.kind}"[:2000],
        retry_after_s=None if wait is None else max(0.0, wait),
    )
