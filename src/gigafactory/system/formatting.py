"""Sizes, ages and sums of money as text for people.

`aq jobs` imports this before it prints anything, so it imports nothing that loads slowly.
"""

from datetime import UTC, datetime

from gigafactory.domain.elapsed import DAY, HOUR, MINUTE, format_elapsed

KILO, TEN = 1000, 10
ROUNDED = -5
"""Rounded sums are exact to a hundredth of a cent: 10^5 nano-dollars."""


def format_size(count: int) -> str:
    """Format a number of bytes: `512 B`, `1.5 kB`, `12 MB`."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < KILO:
            break
        value, unit = value / KILO, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= TEN else f"{value:.1f} {unit}"


def format_age(since: datetime, now: datetime | None = None) -> str:
    """Format the time since `since`, as `format_elapsed` does."""
    return format_elapsed((now or datetime.now(UTC)) - since)


def format_short_age(since: datetime, now: datetime) -> str:
    """Format the time since `since` in at most four characters where it can: `45s`, `3h`."""
    seconds = max(0, int((now - since).total_seconds()))
    for size, unit in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def format_money(nanos: int, *, rounded: bool = False) -> str:
    """Format nano-dollars as dollars: `$0.25`; exact, or rounded to a hundredth of a cent."""
    from gigafactory.domain.manifest.units import format_usd

    return f"${format_usd(round(nanos, ROUNDED) if rounded else nanos)}"
