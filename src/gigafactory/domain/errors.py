"""Errors that are reported to the caller, each with a stable code.

Refused
├── Malformed            the request cannot be parsed
├── Invalid              its content is wrong; lists all faults
│   └── RepoNotOwned
├── Unauthenticated      no token, or an unknown one
├── Forbidden            the caller lacks permission
├── NotFound
│   └── JobArchived        the job was moved to the archive
├── Conflict             the state does not allow it, or changed meanwhile
│   ├── Fenced
│   ├── IllegalTransition
│   ├── IdempotencyConflict
│   ├── TwinFactory
│   ├── OfferGone
│   ├── NameTaken
│   ├── Cycle
│   ├── LogGap
│   ├── Replayed
│   └── TrackerRefused
├── Halted
│   └── BudgetPaused
├── TooLarge
├── RangeNotSatisfiable  the requested byte range does not exist
├── TooManyRequests
└── Unavailable          the store cannot be reached
    ├── StoreDiskFull
    └── TrackerUnavailable      the tracker cannot be reached
"""

from collections.abc import Sequence

import msgspec


class Fault(msgspec.Struct, frozen=True, rename="camel"):
    """One fault of an input: field, message and line."""

    field: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        """Format it as one line, like a compiler message."""
        place = f"line {self.line}: " if self.line is not None else ""
        return f"{place}{self.field}: {self.message}" if self.field else f"{place}{self.message}"


class Refused(Exception):  # noqa: N818 - the subclasses read as what happened
    """A request was refused; nothing has changed."""

    code = "refused"

    @property
    def detail(self) -> str:
        """The message: what was found and what to do."""
        return str(self)


class Malformed(Refused):
    """The request cannot be parsed."""

    code = "malformed"


class Invalid(Refused):
    """The content is invalid; `faults` lists every fault."""

    code = "invalid"

    def __init__(self, subject: str, faults: Sequence[Fault]) -> None:
        """Take the name of the invalid input and its faults."""
        self.what = subject
        self.faults = tuple(faults)
        super().__init__(
            f"{subject} is not valid: " + "; ".join(str(fault) for fault in self.faults)
        )


class RepoNotOwned(Invalid):
    """The product restricts its repos, and this one is not listed."""

    code = "repo_not_owned"


class Unauthenticated(Refused):
    """No token, or an invalid one."""

    code = "unauthenticated"


class Forbidden(Refused):
    """The caller is known but lacks permission."""

    code = "forbidden"


class NotFound(Refused):
    """The object does not exist, or the caller may not see it."""

    code = "not_found"

    def __init__(self, kind: str, key: str, hint: str = "") -> None:
        """Take the kind and key of the missing object."""
        super().__init__(f"there is no {kind} {key!r}" + (f"; {hint}" if hint else ""))


class JobArchived(NotFound):
    """The job was archived after its retention time."""

    code = "archived"

    def __init__(self, job_id: str, day: str) -> None:
        """Take the job and the day of its archiving."""
        hint = f"it was archived on {day}: read it with `aq archive show {job_id}`"
        super().__init__("job", job_id, hint)


class Conflict(Refused):
    """The request conflicts with the current state."""

    code = "conflict"


class Fenced(Conflict):
    """A worker wrote under a lease that it no longer holds."""

    code = "fenced"

    def __init__(self, job_id: str, request_epoch: int, current: int) -> None:
        """Take the presented and the current epoch."""
        self.job_id = job_id
        self.presented = request_epoch
        self.current = current
        super().__init__(
            f"job {job_id}: epoch {request_epoch} does not hold the lease (the job is at epoch"
            f" {current}); stop the engine and quarantine the result"
        )


class IllegalTransition(Conflict):
    """The lifecycle does not allow this transition."""

    code = "illegal_transition"

    def __init__(self, job_id: str, stage: str, wanted: str, hint: str = "") -> None:
        """Take the current and the wanted stage."""
        super().__init__(
            f"job {job_id} is {stage} and cannot become {wanted}" + (f"; {hint}" if hint else "")
        )


class IdempotencyConflict(Conflict):
    """The idempotency key was used before with other content."""

    code = "idempotency_conflict"


class TwinFactory(Conflict):
    """Another process with the identity of this factory is running."""

    code = "twin_factory"


class OfferGone(Conflict):
    """The offer was withdrawn, or the job went to another factory."""

    code = "offer_gone"


class NameTaken(Conflict):
    """An unfinished job of the product already has this name."""

    code = "name_taken"


class Cycle(Conflict):
    """The dependencies form a cycle."""

    code = "cycle"

    def __init__(self, path: Sequence[str]) -> None:
        """Take the names along the cycle."""
        self.path = tuple(path)
        super().__init__("the dependencies form a cycle: " + " → ".join(self.path))


class LogGap(Conflict):
    """A log chunk does not start where the log ends."""

    code = "log_gap"

    def __init__(self, offset: int, expected: int) -> None:
        """Take the offset of the chunk and the expected one."""
        self.expected = expected
        super().__init__(
            f"the chunk starts at {offset}, but the log ends at {expected}: send from there"
        )


class Replayed(Conflict):
    """A webhook delivery was received before."""

    code = "replayed"


class TrackerRefused(Conflict):
    """The tracker refused a request; a retry would not help."""

    code = "tracker_refused"


class Halted(Refused):
    """The kill switch is on for the product or the fleet."""

    code = "halted"


class BudgetPaused(Halted):
    """The product is paused: its budget is spent, or a person paused it."""

    code = "budget_paused"


class TooLarge(Refused):
    """The content exceeds a size limit."""

    code = "too_large"


class RangeNotSatisfiable(Refused):
    """The requested byte range is outside the content."""

    code = "range_not_satisfiable"

    def __init__(self, size: int) -> None:
        """Take the size of the content."""
        self.size = size
        super().__init__(f"the content has {size} bytes, none of them in the requested range")


class TooManyRequests(Refused):
    """The caller exceeded its rate limit; retry after `retry_after_s`."""

    code = "too_many"

    def __init__(self, message: str, retry_after_s: int) -> None:
        """Take the seconds to wait before a retry."""
        self.retry_after_s = retry_after_s
        super().__init__(message)


class Unavailable(Refused):
    """The store cannot be reached, the outcome may be unknown: retry with the same key."""

    code = "unavailable"


class StoreDiskFull(Unavailable):
    """The disk of the store is full."""

    code = "disk_full"


class TrackerUnavailable(Unavailable):
    """The tracker does not answer or denies access; the call is retried later."""

    code = "tracker_away"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        """Take the wait that the tracker asked for, if any."""
        self.retry_after_s = retry_after_s
        super().__init__(message)
