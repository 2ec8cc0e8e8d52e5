"""The header Range (RFC 9110): one part of the bytes that there are."""

import re

from gigafactory.domain.errors import RangeNotSatisfiable

_RANGE = re.compile(rb"bytes=[ \t]*([0-9]{0,15})-([0-9]{0,15})[ \t]*", re.IGNORECASE)


def part_of(header: bytes | None, size: int) -> tuple[int, int] | None:
    """Where the part begins and ends; None for a header that is to be passed over.

    That is one with several ranges, in another unit, or without sense.
    Raises RangeNotSatisfiable when the part has no byte in it.
    """
    found = _RANGE.fullmatch(header or b"")
    if found is None or found[1] == found[2] == b"":
        return None
    if found[1] == b"":
        start, end = max(0, size - int(found[2])), size
    else:
        start, last = int(found[1]), int(found[2] or size)
        if found[2] and last < start:
            return None
        end = min(size, last + 1)
    if start >= end:
        raise RangeNotSatisfiable(size)
    return start, end
