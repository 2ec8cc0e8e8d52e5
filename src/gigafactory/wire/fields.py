"""Base classes and field types that the records on the wire share."""

from datetime import datetime
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta

from gigafactory.wire.limits import PAGE_MAX


class ResponseView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all JSON objects in responses; readers ignore fields that they do not know."""


class RequestDoc(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """Base of all query strings and JSON objects in requests.

    Most refuse an unknown field by name; a client sends only what differs from the default.
    """


Timestamp = Annotated[
    datetime,
    Meta(extra_json_schema={"format": "date-time"}, examples=["2026-01-01T12:00:00.000Z"]),
]
ManifestJson = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]
"""The JSON of a manifest as it was resolved at submission."""
Dollars = Annotated[float, Meta(ge=0, le=1e9)] | Annotated[str, Meta(max_length=40)]
Money = Annotated[str, Meta(description="dollars, as a decimal number", examples=["0.25"])]


class JsonTime(datetime):
    """A UTC time with its JSON text: ISO 8601 with milliseconds and `Z`.

    msgspec writes a plain datetime with microseconds or without a fraction; it has no option.
    """

    __slots__ = ("text",)
    text: str


@lru_cache(maxsize=4096)
def timestamp(at: datetime) -> JsonTime:
    """Return a UTC time in the format of all responses."""
    converted = JsonTime.combine(at.date(), at.timetz())
    converted.text = at.isoformat(timespec="milliseconds")[:-6] + "Z"
    return converted


def optional_timestamp(at: datetime | None) -> JsonTime | None:
    """Return the timestamp of a time, or None."""
    return None if at is None else timestamp(at)


def encode_hook(value: object) -> object:
    """Return the JSON text of a time, for msgspec's encoder."""
    if isinstance(value, JsonTime):
        return value.text
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


# The last part keeps Python's `$` from accepting a trailing line end.
FACTORY_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$(?!\n)"
FactoryId = Annotated[str, Meta(pattern=FACTORY_ID_PATTERN, examples=["mac-1"])]
JobId = Annotated[str, Meta(min_length=1, max_length=200, examples=["01jqx5w0v8n6m2k4h9r7t3y1bd"])]
ProductId = Annotated[
    str, Meta(pattern=r"^(?!.*\.\.)[a-z0-9][a-z0-9._-]{0,99}$(?!\n)", examples=["notes"])
]
Scope = Annotated[str, Meta(pattern=r"^(\*|(?!.*\.\.)[a-z0-9][a-z0-9._-]{0,99})$(?!\n)")]
Epoch = Annotated[int, Meta(ge=0, le=2**53 - 1, description="the fencing epoch of the lease")]
Count = Annotated[int, Meta(ge=0, le=10**15)]
PageLimit = Annotated[int, Meta(ge=1, le=PAGE_MAX)]
Cursor = Annotated[str, Meta(max_length=1000)]
"""Where a page of a list starts: `nextCursor` of the page before."""
Line = Annotated[str, Meta(max_length=500)]
Sentence = Annotated[str, Meta(max_length=10_000)]
Word = Annotated[str, Meta(min_length=1, max_length=200)]
