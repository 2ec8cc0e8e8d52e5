"""Exit codes, and the next step after each refusal."""

from enum import IntEnum

from gigafactory.client.transport.problems import Unreachable
from gigafactory.domain.errors import (
    BudgetPaused,
    Conflict,
    Forbidden,
    Halted,
    NotFound,
    Refused,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)


class Exit(IntEnum):
    """Exit code of a command."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNAVAILABLE = 5
    NOT_ALLOWED = 6
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "success",
    Exit.REFUSED: "refused or invalid; the message says why",
    Exit.USAGE: "wrong usage of the command",
    Exit.NOT_FOUND: "no such job, factory, profile or token",
    Exit.CONFLICT: "conflict with another change, or the job's stage does not allow it",
    Exit.UNAVAILABLE: "the coordinator or its store is unavailable; try again later",
    Exit.NOT_ALLOWED: "no token, or missing permission",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}


class NotEnrolled(Unauthenticated):
    """The fleet knows neither the invitation nor the token of this machine."""

    code = "not_enrolled"


CODES: dict[type[Refused], Exit] = {
    NotFound: Exit.NOT_FOUND,
    Conflict: Exit.CONFLICT,
    Unauthenticated: Exit.NOT_ALLOWED,
    Forbidden: Exit.NOT_ALLOWED,
    TooManyRequests: Exit.UNAVAILABLE,
    Unavailable: Exit.UNAVAILABLE,
    Refused: Exit.REFUSED,
}
"""Exit code of each kind of refusal, including subclasses."""

NEXT: dict[type[Refused], str] = {
    Unreachable: "start a coordinator with `aq up`, or set AQ_FLEET_API to its URL",
    NotEnrolled: (
        "an admin creates an invitation with `aq factory invite`; use it here with"
        " `aq factory enroll`"
    ),
    Unauthenticated: (
        "set AQ_FLEET_TOKEN (an admin creates a token with `aq tokens create`), or for your own"
        " coordinator AQ_DATA, the data folder that `aq up` printed"
    ),
    BudgetPaused: "`aq budget show` shows the budget; `aq budget set` raises the limit",
    Halted: "an operator ends the halt with `aq resume`",
}


def exit_code(refused: Refused) -> Exit:
    """Return the exit code of a refusal."""
    return next(CODES[kind] for kind in type(refused).__mro__ if kind in CODES)


def next_step(refused: Refused) -> str | None:
    """Return what to do about a refusal, if its message does not say it."""
    return next((NEXT[kind] for kind in type(refused).__mro__ if kind in NEXT), None)
