"""Classifies engine failures by message, HTTP status and exit code."""

import re
from collections.abc import Sequence

from gigafactory.engines.protocol.engine import Failure, FailureKind

MESSAGE_CHARS_MAX = 1000
KILL_EXITS = frozenset({129, 130, 137, 143})
"""Exit codes of programs stopped by a signal, by shell convention."""

FailurePatterns = Sequence[tuple[re.Pattern[str], FailureKind]]
"""Message patterns with the failure they mean; the first match wins."""

_STATUSES = {
    401: FailureKind.AUTH,
    402: FailureKind.BILLING,
    403: FailureKind.AUTH,
    413: FailureKind.CONTEXT,
    429: FailureKind.RATE_LIMIT,
    503: FailureKind.OVERLOADED,
    529: FailureKind.OVERLOADED,
}


def failure_patterns(*pairs: tuple[str, FailureKind]) -> FailurePatterns:
    """Compile case-insensitive patterns."""
    return [(re.compile(words, re.IGNORECASE), kind) for words, kind in pairs]


API_PATTERNS = failure_patterns(
    (
        r"context[ _](?:length|window)|(?:prompt|input) is too long|too many tokens",
        FailureKind.CONTEXT,
    ),
    (r"unable to connect|connection (?:error|failed|refused|reset)", FailureKind.NETWORK),
    (r"ECONN|ENOTFOUND|EAI_AGAIN|network error|fetch failed", FailureKind.NETWORK),
    (r"error sending request|stream disconnected", FailureKind.NETWORK),
)
"""Messages of model APIs, independent of the engine."""


def kind_of_status(status: int) -> FailureKind | None:
    """Return the failure kind of an HTTP status, or None."""
    if status in _STATUSES:
        return _STATUSES[status]
    return FailureKind.SERVER if 500 <= status <= 599 else None  # noqa: PLR2004


def kind_of_message(message: str, *tables: FailurePatterns) -> FailureKind | None:
    """Return the failure kind of a message by the first matching pattern, or None."""
    for table in tables:
        for words, kind in table:
            if words.search(message):
                return kind
    return None


def classify(
    message: str, table: FailurePatterns, status: int = 0, declared: FailureKind | None = None
) -> FailureKind:
    """Classify by the engine's patterns, the HTTP status, the declared kind, then API patterns."""
    return (
        kind_of_message(message, table)
        or kind_of_status(status)
        or declared
        or kind_of_message(message, API_PATTERNS)
        or FailureKind.CRASH
    )


def shorten(message: str) -> str:
    """Shorten a message for a report."""
    return message.strip()[:MESSAGE_CHARS_MAX]


def failure_without_result(exit_code: int, stderr: str, table: FailurePatterns = ()) -> Failure:
    """Return the failure of an engine that ended without a result."""
    if exit_code < 0 or exit_code in KILL_EXITS:
        return Failure(FailureKind.KILLED, f"stopped by a signal (exit {exit_code})")
    kind = kind_of_message(stderr, table) or FailureKind.NO_END
    return Failure(kind, shorten(stderr) or f"ended without a result (exit {exit_code})")


# More specific than the status: 429 can mean no credit, a used-up quota, or a busy API.
_SPECIFIC = failure_patterns(
    (r"insufficient_quota|exceeded your current quota|credit balance|billing", FailureKind.BILLING),
    (r"usage[ _]limit|limit has been reached|hit your (?:\w+ )?limit", FailureKind.ALLOWANCE),
    (r"context ?(?:length|window)|prompt is too long|too many tokens", FailureKind.CONTEXT),
)
_GENERIC = failure_patterns(
    (r"rate[ _]?limit|too many requests", FailureKind.RATE_LIMIT),
    (r"api[ _]?key|authenticat|unauthorized|permission ?denied|no credentials", FailureKind.AUTH),
    (r"overloaded|at capacity|service ?unavailable|high demand", FailureKind.OVERLOADED),
    (r"server had an error|internal ?server ?error|bad ?gateway", FailureKind.SERVER),
    (r"time(?:d )?out|api ?connection", FailureKind.NETWORK),
)


def classify_refusal(message: str, status: int = 0) -> FailureKind | None:
    """Classify an API refusal by its message and HTTP status; None if unknown."""
    return (
        kind_of_message(message, _SPECIFIC)
        or kind_of_status(status)
        or kind_of_message(message, API_PATTERNS, _GENERIC)
    )
