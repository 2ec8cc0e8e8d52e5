"""Reads what another program printed as JSON: what is odd counts as absent, and nothing raises."""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from gigafactory.domain.job.run import USAGE_MAX

Record = Mapping[str, object]

NANOS_PER_USD = 10**9
# The years 2001 to 2099: whatever lies outside is no time at which a limit is reset.
MOMENT_MIN, MOMENT_MAX = 10**9, 41 * 10**8


def parse_record(line: str | bytes) -> Record | None:
    """The object that a line holds; None for a line that is none."""
    if line.lstrip()[:1] not in {"{", b"{"}:
        return None
    data = line.encode(errors="replace") if isinstance(line, str) else line
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def parse_records(data: bytes) -> Iterator[Record]:
    """The objects among the lines of a file."""
    for line in data.splitlines():
        if (found := parse_record(line)) is not None:
            yield found


def value(found: Record, *path: str) -> object:
    """What lies at the end of a path of names; None when there is nothing."""
    here: object = found
    for name in path:
        if not isinstance(here, Mapping):
            return None
        here = here.get(name)
    return here


def record_at(found: Record, *path: str) -> Record:
    """The object at the end of a path; an empty one when there is none."""
    here = value(found, *path)
    return here if isinstance(here, Mapping) else {}


def records_at(found: Record, *path: str) -> list[Record]:
    """The objects in the list at the end of a path."""
    here = value(found, *path)
    return [item for item in here if isinstance(item, Mapping)] if isinstance(here, list) else []


def text(found: Record, *path: str) -> str:
    """The text at the end of a path; an empty one when there is none."""
    here = value(found, *path)
    return here if isinstance(here, str) else ""


def flag(found: Record, *path: str) -> bool:
    """Whether there is a plain true at the end of a path."""
    return value(found, *path) is True


def number(found: Record, *path: str) -> float | None:
    """The finite number at the end of a path that is not negative; None when there is none."""
    here = value(found, *path)
    if isinstance(here, bool) or not isinstance(here, int | float):
        return None
    return here if 0 <= here <= USAGE_MAX and math.isfinite(here) else None


def count(found: Record, *path: str) -> int:
    """The whole number at the end of a path; 0 when there is none that a run can have used."""
    here = number(found, *path)
    return int(here) if here is not None and here == int(here) else 0


def nano_usd(found: Record, *path: str) -> int | None:
    """The amount of dollars at the end of a path, in nano-dollars; None when there is none."""
    here = number(found, *path)
    if here is None or here * NANOS_PER_USD > USAGE_MAX:
        return None
    return round(here * NANOS_PER_USD)


def unix_time(found: Record, *path: str) -> datetime | None:
    """The time that the seconds at the end of a path mean; None when they mean none."""
    here = number(found, *path)
    if here is None or not MOMENT_MIN <= here <= MOMENT_MAX:
        return None
    return datetime.fromtimestamp(int(here), UTC)


def iso_time(found: Record, *path: str) -> datetime | None:
    """The time that the text at the end of a path says, with its zone; None when it says none."""
    try:
        here = datetime.fromisoformat(text(found, *path))
    except ValueError:
        return None
    return here if here.tzinfo is not None else None
