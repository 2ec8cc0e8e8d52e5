"""Parse and format durations, counts and dollar amounts."""

import re
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache

NANOS_PER_USD = 1_000_000_000
DURATION_MAX = timedelta(days=3650)
COUNT_MAX = 10**15
USD_MAX = 1_000_000_000

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,9})?"
_PLAIN = re.compile(_NUMBER)
_DURATION = re.compile(
    rf"(?:({_NUMBER})d)?(?:({_NUMBER})h)?(?:({_NUMBER})m)?(?:({_NUMBER})s)?",
)
_COUNT = re.compile(rf"({_NUMBER})([kKMG]?)")
_UNIT_SECONDS = (86_400, 3_600, 60, 1)
_MULTIPLES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
# A longer text cannot be a sensible amount.
_USD_CHARS_MAX = 40


def parse_duration(text: str) -> timedelta:
    """Parse `90s`, `45m`, `4h`, `1h30m`, `2d` or plain seconds; else ValueError."""
    written = text.strip()
    if _PLAIN.fullmatch(written):
        seconds = Decimal(written)
    elif written and (match := _DURATION.fullmatch(written)):
        seconds = sum(
            (
                Decimal(part) * unit
                for part, unit in zip(match.groups(), _UNIT_SECONDS, strict=True)
                if part
            ),
            Decimal(0),
        )
    else:
        raise ValueError("a duration such as 90s, 45m, 4h, 1h30m or 2d, or a number of seconds")
    if seconds > DURATION_MAX.total_seconds():
        raise ValueError(f"a duration of at most {DURATION_MAX.days}d")
    return timedelta(microseconds=int(seconds * 1_000_000))


@lru_cache(maxsize=1024)
def format_duration(duration: timedelta) -> str:
    """Format a duration in the notation of `parse_duration`."""
    micros = duration // timedelta(microseconds=1)
    parts = []
    for unit, letter in zip(_UNIT_SECONDS[:3], "dhm", strict=True):
        count, micros = divmod(micros, unit * 1_000_000)
        if count:
            parts.append(f"{count}{letter}")
    if micros or not parts:
        parts.append(f"{_decimal(micros, 6)}s")
    return "".join(parts)


def parse_count(text: str) -> int:
    """Parse `500k`, `2M` or a plain whole number; ValueError says what is expected."""
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError("a count such as 200000, 500k or 2M")
    count = Decimal(match[1]) * _MULTIPLES[match[2]]
    if count != int(count):
        raise ValueError("a whole number of units")
    if count > COUNT_MAX:
        raise ValueError(f"a count of at most {COUNT_MAX}")
    return int(count)


def parse_usd(text: str) -> int:
    """Parse a dollar amount to nano-dollars, exactly; ValueError says what is expected."""
    amount = _dollars(text)
    nanos = amount * NANOS_PER_USD
    if nanos != int(nanos):
        raise ValueError("a sum in dollars with at most nine decimals")
    return int(nanos)


def metered_usd(value: float | str) -> int:
    """Convert a metered cost in dollars to nano-dollars, rounded up; ValueError if invalid."""
    nanos = _dollars(str(value)) * NANOS_PER_USD
    return int(nanos) + (nanos != int(nanos))


def format_usd(nanos: int) -> str:
    """Format nano-dollars as an exact decimal number of dollars."""
    sign = "-" if nanos < 0 else ""
    return sign + _decimal(abs(nanos), 9)


def _dollars(text: str) -> Decimal:
    expected = "a sum in dollars, such as 5 or 0.25"
    if len(text) > _USD_CHARS_MAX or "_" in text:
        raise ValueError(expected)
    try:
        amount = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(expected) from None
    if not amount.is_finite() or amount < 0:
        raise ValueError(expected + ", that is neither negative nor infinite")
    if amount > USD_MAX:
        raise ValueError(f"a sum of at most {USD_MAX} dollars")
    # Guards against huge negative exponents.
    if amount and amount.adjusted() < -_USD_CHARS_MAX:
        raise ValueError(expected)
    return amount


def _decimal(scaled: int, places: int) -> str:
    whole, rest = divmod(scaled, 10**places)
    return f"{whole}.{rest:0{places}d}".rstrip("0").rstrip(".")
