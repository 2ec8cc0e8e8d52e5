"""Durations as text for people.

`aq jobs` imports this before it prints anything, so it imports nothing that loads slowly.
"""

from datetime import timedelta

MINUTE, HOUR, DAY = 60, 3600, 86_400


def format_elapsed(length: timedelta | float) -> str:
    """Format a duration or a number of seconds: `45 s`, `12 min`, `1 h 1 min`, `3 d`."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min"
    if whole < DAY:
        hours, rest = divmod(whole, HOUR)
        return f"{hours} h {rest // MINUTE} min" if rest >= MINUTE else f"{hours} h"
    return f"{whole // DAY} d"


def format_ago(passed: timedelta) -> str:
    """Format how long ago something was: `3 h ago`."""
    return f"{format_elapsed(passed)} ago"
