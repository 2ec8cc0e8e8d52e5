"""Lenient accessors for JSON output: unexpected values count as absent, nothing raises."""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from gigafactory.domain.job.run import USAGE_MAX

Record = Mapping[str, object]

NANOS_PER_USD = 10**9
# The years 2001 to 2099: other values are not the reset of a limit.
MOMENT_MIN, MOMENT_MAX = 10**9, 41 * 10**8


def parse_record(line: str | bytes) -> Record | None:
    """Return the JSON object of a line, or None."""
    if line.lstrip()[:1] not in {"{", b"{"}:
        return None
    data = line.encode(errors="replace") if isinstance(line, str) else line
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def parse_records(data: bytes) -> Iterator[Record]:
    """Yield the JSON objects among the lines of a file."""
    for line in data.splitlines():
        if (found := parse_record(line)) is not None:
            yield found


def value(found: Record, *path: str) -> object:
    """Return the value at a path of keys, or None."""
    here: object = found
    for name in path:
        if not isinstance(here, Mapping):
            return None
        here = here.get(name)
    return here


def record_at(found: Record, *path: str) -> Record:
    """Return the object at a path, or an empty one."""
    here = value(found, *path)
    return here if isinstance(here, Mapping) else {}


def records_at(found: Record, *path: str) -> list[Record]:
    """Return the objects in the list at a path."""
    here = value(found, *path)
    return [item for item in here if isinstance(item, Mapping)] if isinstance(here, list) else []


def text(found: Record, *path: str) -> str:
    """Return the string at a path, or an empty one."""
    here = value(found, *path)
    return here if isinstance(here, str) else ""


def flag(found: Record, *path: str) -> bool:
    """Return whether the value at a path is true."""
    return value(found, *path) is True


def number(found: Record, *path: str) -> float | None:
    """Return the finite, non-negative number at a path, or None."""
    here = value(found, *path)
    if isinstance(here, bool) or not isinstance(here, int | float):
        return None
    return here if 0 <= here <= USAGE_MAX and math.isfinite(here) else None


def count(found: Record, *path: str) -> int:
    """Return the whole number at a path, or 0 if there is no plausible one."""
    here = number(found, *path)
    return int(here) if here is not None and here == int(here) else 0


def nano_usd(found: Record, *path: str) -> int | None:
    """Return the dollar amount at a path in nano-dollars, or None."""
    here = number(found, *path)
    if here is None or here * NANOS_PER_USD > USAGE_MAX:
        return None
    return round(here * NANOS_PER_USD)


def unix_time(found: Record, *path: str) -> datetime | None:
    """Return the time at a path of Unix seconds, or None."""
    here = number(found, *path)
    if here is None or not MOMENT_MIN <= here <= MOMENT_MAX:
        return None
    return datetime.fromtimestamp(int(here), UTC)


def iso_time(found: Record, *path: str) -> datetime | None:
    """Return the ISO 8601 time with zone at a path, or None."""
    try:
        here = datetime.fromisoformat(text(found, *path))
    except ValueError:
        return None
    return here if here.tzinfo is not None else None
