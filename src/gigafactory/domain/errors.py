"""Every refusal that a caller must hear, by name.

Refused
├── Malformed            the request itself cannot be read
├── Invalid              it can be read, and its content is wrong (all faults at once)
│   └── RepoNotOwned
├── Unauthenticated      no token, or one that is not known
├── Forbidden            a known caller who may not do this
├── NotFound
│   └── JobArchived        it was there, and lies in the archive now
├── Conflict             somebody else was there first
│   ├── Fenced
│   ├── IllegalTransition
│   ├── IdempotencyConflict
│   ├── OfferGone
│   ├── NameTaken
│   ├── Cycle
│   ├── LogGap
│   ├── Replayed
│   └── TrackerRefused
├── Halted
│   └── BudgetPaused
├── TooLarge
├── RangeNotSatisfiable  a part of something was asked for that it does not have
├── TooManyRequests
└── Unavailable          the store is away
    └── TrackerUnavailable      the tracker is
"""

from collections.abc import Sequence

import msgspec


class Fault(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that is wrong with an input, and where."""

    field: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        """Say it in one line, as a compiler would."""
        place = f"line {self.line}: " if self.line is not None else ""
        return f"{place}{self.field}: {self.message}" if self.field else f"{place}{self.message}"


class Refused(Exception):  # noqa: N818 - named after what happened, not after being an error
    """A caller's wish was understood and not granted; nothing has changed."""

    code = "refused"

    @property
    def detail(self) -> str:
        """The sentence that tells a person what was found and what to do."""
        return str(self)


class Malformed(Refused):
    """The request cannot be read at all."""

    code = "malformed"


class Invalid(Refused):
    """The content is wrong; `faults` names every place at once."""

    code = "invalid"

    def __init__(self, what: str, faults: Sequence[Fault]) -> None:
        """Gather all that is wrong with `what`."""
        self.what = what
        self.faults = tuple(faults)
        super().__init__(f"{what} is not valid: " + "; ".join(str(fault) for fault in self.faults))


class RepoNotOwned(Invalid):
    """The product lists its repos, and this one is not among them."""

    code = "repo_not_owned"


class Unauthenticated(Refused):
    """No token, or one that opens nothing."""

    code = "unauthenticated"


class Forbidden(Refused):
    """A known caller who may not do this."""

    code = "forbidden"


class NotFound(Refused):
    """There is no such thing, or none that this caller may see."""

    code = "not_found"

    def __init__(self, kind: str, key: str, hint: str = "") -> None:
        """Name what was looked for."""
        super().__init__(f"there is no {kind} {key!r}" + (f"; {hint}" if hint else ""))


class JobArchived(NotFound):
    """The job was finished for so long that it lies in the archive, as one file."""

    code = "archived"

    def __init__(self, job_id: str, day: str) -> None:
        """Say where it lies."""
        hint = f"it was archived on {day}: read it with `aq archive show {job_id}`"
        super().__init__("job", job_id, hint)


class Conflict(Refused):
    """The world has moved on since the caller looked."""

    code = "conflict"


class Fenced(Conflict):
    """A worker spoke for a lease that is not its own any more."""

    code = "fenced"

    def __init__(self, job_id: str, presented: int, current: int) -> None:
        """Name both epochs, so that the worker's log explains itself."""
        self.job_id = job_id
        self.presented = presented
        self.current = current
        super().__init__(
            f"job {job_id}: epoch {presented} does not hold the lease (the job is at epoch"
            f" {current}); stop the engine and quarantine the result"
        )


class IllegalTransition(Conflict):
    """The lifecycle has no such step."""

    code = "illegal_transition"

    def __init__(self, job_id: str, stage: str, wanted: str, hint: str = "") -> None:
        """Name both stages."""
        super().__init__(
            f"job {job_id} is {stage} and cannot become {wanted}" + (f"; {hint}" if hint else "")
        )


class IdempotencyConflict(Conflict):
    """The key was used before, for something else."""

    code = "idempotency_conflict"


class OfferGone(Conflict):
    """The offer was withdrawn, or the job went to another factory."""

    code = "offer_gone"


class NameTaken(Conflict):
    """An unfinished job of the product has this name already."""

    code = "name_taken"


class Cycle(Conflict):
    """The dependencies close a circle."""

    code = "cycle"

    def __init__(self, path: Sequence[str]) -> None:
        """Spell the circle out."""
        self.path = tuple(path)
        super().__init__("the dependencies form a cycle: " + " → ".join(self.path))


class LogGap(Conflict):
    """A log chunk does not follow the one before it."""

    code = "log_gap"

    def __init__(self, offset: int, expected: int) -> None:
        """Name the offset to go on from."""
        self.expected = expected
        super().__init__(
            f"the chunk starts at {offset}, and the log ends at {expected}: send from there"
        )


class Replayed(Conflict):
    """A signed delivery was here before."""

    code = "replayed"


class TrackerRefused(Conflict):
    """The tracker understood, and does not do it; asking again changes nothing."""

    code = "tracker_refused"


class Halted(Refused):
    """The kill switch is on."""

    code = "halted"


class BudgetPaused(Halted):
    """The product gets nothing: its budget is spent, or somebody paused it."""

    code = "budget_paused"


class TooLarge(Refused):
    """More bytes than are taken."""

    code = "too_large"


class RangeNotSatisfiable(Refused):
    """Bytes were asked for that there are not."""

    code = "range_not_satisfiable"

    def __init__(self, size: int) -> None:
        """Name how many bytes there are."""
        self.size = size
        super().__init__(f"there are {size} bytes, and none in the range that was asked for")


class TooManyRequests(Refused):
    """More requests than this caller may send; try again after `retry_after_s`."""

    code = "too_many"

    def __init__(self, message: str, retry_after_s: int) -> None:
        """Say when to come back."""
        self.retry_after_s = retry_after_s
        super().__init__(message)


class Unavailable(Refused):
    """The store is away: nothing was changed, or it is not known; ask again with the same key."""

    code = "unavailable"


class TrackerUnavailable(Unavailable):
    """The tracker does not answer, or lets us in no more: it is asked again later."""

    code = "tracker_away"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        """Say when to come back, where the tracker has said it."""
        self.retry_after_s = retry_after_s
        super().__init__(message)
