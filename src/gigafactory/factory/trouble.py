"""What an unexpected trouble of this machine means for a run."""

import errno

from gigafactory.domain.errors import Forbidden, NotFound, Unavailable
from gigafactory.domain.job import Result
from gigafactory.factory.addresses import AddressRefused
from gigafactory.factory.assignment import Outcome
from gigafactory.factory.git_failures import (
    DiskFull,
    GitTimeout,
    Missing,
    PushDenied,
    RemoteAway,
    RemoteForbids,
)
from gigafactory.factory.leaks import SecretInWork
from gigafactory.factory.sandbox import NoSandbox

FULL = {errno.ENOSPC, errno.EDQUOT}
ROOM = "the disk of this factory is full; make room there"


def outcome_of_trouble(phase: str, trouble: Exception) -> Outcome:
    """The one class of result that a failed phase ends in."""
    reason = f"{phase}: {trouble}"[:2000]
    match trouble:
        case RemoteAway() | GitTimeout() | Unavailable():
            # Nobody's fault: it is tried again after a while.
            return Outcome(result=Result.OVERLOADED, reason=reason)
        case (
            Missing() | RemoteForbids() | PushDenied() | AddressRefused() | Forbidden() | NotFound()
        ):
            return Outcome(result=Result.SETUP_FAILED, reason=reason)
        case SecretInWork():
            return Outcome(result=Result.SCOPE_VIOLATION, reason=reason)
        case DiskFull() | NoSandbox():
            return Outcome(result=Result.RELEASED, reason=reason)
        case OSError(errno=number) if number in FULL:
            return Outcome(result=Result.RELEASED, reason=f"{phase}: {ROOM}")
        case _:
            return Outcome(result=Result.CRASH, reason=reason)
