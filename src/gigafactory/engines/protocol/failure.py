"""What kind of failure an engine has met, from the few ways in which engines say so."""

import re
from collections.abc import Sequence

from gigafactory.engines.protocol.engine import Failure, Trouble

MESSAGE_CHARS_MAX = 1000
KILL_EXITS = frozenset({129, 130, 137, 143})
"""What a program exits with that was told to stop, by the custom of shells."""

Signs = Sequence[tuple[re.Pattern[str], Trouble]]
"""Words by which a failure is known, the first that is found wins."""

_STATUSES = {
    401: Trouble.AUTH,
    402: Trouble.BILLING,
    403: Trouble.AUTH,
    413: Trouble.CONTEXT,
    429: Trouble.RATE_LIMIT,
    503: Trouble.OVERLOADED,
    529: Trouble.OVERLOADED,
}


def signs(*pairs: tuple[str, Trouble]) -> Signs:
    """A table of words, whatever their case."""
    return [(re.compile(words, re.IGNORECASE), kind) for words, kind in pairs]


API_SIGNS = signs(
    (r"context[ _](?:length|window)|(?:prompt|input) is too long|too many tokens", Trouble.CONTEXT),
    (r"unable to connect|connection (?:error|failed|refused|reset)", Trouble.NETWORK),
    (r"ECONN|ENOTFOUND|EAI_AGAIN|network error|fetch failed", Trouble.NETWORK),
    (r"error sending request|stream disconnected", Trouble.NETWORK),
)
"""What services say, whichever engine passes it on."""


def of_status(status: int) -> Trouble | None:
    """The kind that an HTTP status stands for; None for one that is no failure of its own kind."""
    if status in _STATUSES:
        return _STATUSES[status]
    return Trouble.SERVER if 500 <= status <= 599 else None  # noqa: PLR2004


def of_words(message: str, *tables: Signs) -> Trouble | None:
    """The kind that a message speaks of; None when no table knows it."""
    for table in tables:
        for words, kind in table:
            if words.search(message):
                return kind
    return None


def kind_of(message: str, table: Signs, status: int = 0, told: Trouble | None = None) -> Trouble:
    """The kind of a failure by the engine's words, the HTTP status, what is told, or any words."""
    return (
        of_words(message, table)
        or of_status(status)
        or told
        or of_words(message, API_SIGNS)
        or Trouble.CRASH
    )


def shortened(message: str) -> str:
    """A message as a report can carry it."""
    return message.strip()[:MESSAGE_CHARS_MAX]


def unfinished(exit_code: int, stderr: str, table: Signs = ()) -> Failure:
    """What became of an engine that ended without saying how."""
    if exit_code < 0 or exit_code in KILL_EXITS:
        return Failure(Trouble.KILLED, f"stopped from outside (exit {exit_code})")
    kind = of_words(stderr, table) or Trouble.NO_END
    return Failure(kind, shortened(stderr) or f"ended without a result (exit {exit_code})")


# These words say more than a status: one and the same stands for an empty account, an allowance
# that is used up and a busy minute.
_CERTAIN = signs(
    (r"insufficient_quota|exceeded your current quota|credit balance|billing", Trouble.BILLING),
    (r"usage[ _]limit|limit has been reached|hit your (?:\w+ )?limit", Trouble.ALLOWANCE),
    (r"context ?(?:length|window)|prompt is too long|too many tokens", Trouble.CONTEXT),
)
_LIKELY = signs(
    (r"rate[ _]?limit|too many requests", Trouble.RATE_LIMIT),
    (r"api[ _]?key|authenticat|unauthorized|permission ?denied|no credentials", Trouble.AUTH),
    (r"overloaded|at capacity|service ?unavailable|high demand", Trouble.OVERLOADED),
    (r"server had an error|internal ?server ?error|bad ?gateway", Trouble.SERVER),
    (r"time(?:d )?out|api ?connection", Trouble.NETWORK),
)


def refusal(message: str, status: int = 0) -> Trouble | None:
    """The kind of a refusal, by its words and its HTTP status if it has one; None: unheard of."""
    return of_words(message, _CERTAIN) or of_status(status) or of_words(message, API_SIGNS, _LIKELY)
