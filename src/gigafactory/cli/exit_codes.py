"""How a command ends: one table of exit codes, and what to do next after each refusal."""

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
    """What the shell is told."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNAVAILABLE = 5
    NOT_ALLOWED = 6
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "it is done",
    Exit.REFUSED: "it was refused or is not valid; the message says why",
    Exit.USAGE: "the command was not typed right",
    Exit.NOT_FOUND: "there is no such job, factory, profile or token",
    Exit.CONFLICT: "somebody was there first, or the job's stage does not allow it",
    Exit.UNAVAILABLE: "the coordinator or its store is away, or asks to come back later",
    Exit.NOT_ALLOWED: "no token, or one that does not allow this",
    Exit.INTERRUPTED: "stopped by Ctrl-C",
}

CODES: dict[type[Refused], Exit] = {
    NotFound: Exit.NOT_FOUND,
    Conflict: Exit.CONFLICT,
    Unauthenticated: Exit.NOT_ALLOWED,
    Forbidden: Exit.NOT_ALLOWED,
    TooManyRequests: Exit.UNAVAILABLE,
    Unavailable: Exit.UNAVAILABLE,
    Refused: Exit.REFUSED,
}
"""The exit code of each kind of refusal; its subclasses share it."""

NEXT: dict[type[Refused], str] = {
    Unreachable: "start one with `aq up`, or set AQ_FLEET_API to the address of yours",
    Unauthenticated: "set AQ_FLEET_TOKEN to a token of yours; an admin makes one with"
    " `aq tokens create`",
    BudgetPaused: "`aq budget show` says how it stands; `aq budget set` raises the ceiling",
    Halted: "an operator lifts the halt with `aq resume`",
}


def exit_code(refused: Refused) -> Exit:
    """The exit code of a refusal."""
    return next(CODES[kind] for kind in type(refused).__mro__ if kind in CODES)


def next_step(refused: Refused) -> str | None:
    """What a person can do about a refusal whose own sentence does not say it."""
    return next((NEXT[kind] for kind in type(refused).__mro__ if kind in NEXT), None)
