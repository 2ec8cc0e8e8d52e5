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
        record = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def parse_records(data: bytes) -> Iterator[Record]:
    """Yield the JSON objects among the lines of a file."""
    for line in data.splitlines():
        if (record := parse_record(line)) is not None:
            yield record


def value(record: Record, *path: str) -> object:
    """Return the value at a path of keys, or None."""
    member: object = record
    for name in path:
        if not isinstance(member, Mapping):
            return None
        member = member.get(name)
    return member


def record_at(record: Record, *path: str) -> Record:
    """Return the object at a path, or an empty one."""
    member = value(record, *path)
    return member if isinstance(member, Mapping) else {}


def records_at(record: Record, *path: str) -> list[Record]:
    """Return the objects in the list at a path."""
    member = value(record, *path)
    return (
        [item for item in member if isinstance(item, Mapping)] if isinstance(member, list) else []
    )


def text(record: Record, *path: str) -> str:
    """Return the string at a path, or an empty one."""
    member = value(record, *path)
    return member if isinstance(member, str) else ""


def flag(record: Record, *path: str) -> bool:
    """Return whether the value at a path is true."""
    return value(record, *path) is True


def number(record: Record, *path: str) -> float | None:
    """Return the finite, non-negative number at a path, or None."""
    member = value(record, *path)
    if isinstance(member, bool) or not isinstance(member, int | float):
        return None
    return member if 0 <= member <= USAGE_MAX and math.isfinite(member) else None


def count(record: Record, *path: str) -> int:
    """Return the whole number at a path, or 0 if there is no plausible one."""
    member = number(record, *path)
    return int(member) if member is not None and member == int(member) else 0


def nano_usd(record: Record, *path: str) -> int | None:
    """Return the dollar amount at a path in nano-dollars, or None."""
    member = number(record, *path)
    if member is None or member * NANOS_PER_USD > USAGE_MAX:
        return None
    return round(member * NANOS_PER_USD)


def unix_time(record: Record, *path: str) -> datetime | None:
    """Return the time at a path of Unix seconds, or None."""
    member = number(record, *path)
    if member is None or not MOMENT_MIN <= member <= MOMENT_MAX:
        return None
    return datetime.fromtimestamp(int(member), UTC)


def iso_time(record: Record, *path: str) -> datetime | None:
    """Return the ISO 8601 time with zone at a path, or None."""
    try:
        member = datetime.fromisoformat(text(record, *path))
    except ValueError:
        return None
    return member if member.tzinfo is not None else None
