"""Decoding of JSON bodies and queries to typed values."""

import re
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from gigafactory.domain.errors import Fault, Invalid, Malformed

Value = TypeVar("Value")

QUERY_FIELDS_MAX = 50
VALUES_MAX = 500_000
"""Values in a document of jobs; the largest plan has some 300,000."""
SCANNED_BYTES = 256 * 1024

_KEY = "key` in `"
"""Prefix in msgspec's messages about an invalid key."""
_PLACE = " - at `"
"""What separates message and place in msgspec's messages."""
_NAMED = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<field>.+)`")


def decode_json(data: bytes, of: type[Value], subject: str = "the request") -> Value:
    """Decode JSON to a type; an empty body counts as an empty object.

    Raises Malformed, Invalid.
    """
    # Without the escaped backslashes; a regular expression would take ten times as long.
    if b"u0000" in data and rb"\u0000" in data.replace(rb"\\", b""):
        raise Invalid(subject, [Fault("", "found a NUL character; expected text without it")])
    try:
        return _decoder(of).decode(data or b"{}")
    except msgspec.ValidationError as wrong:
        raise Invalid(subject, [parse_fault(str(wrong))]) from None
    except msgspec.DecodeError as wrong:
        raise Malformed(f"{subject} is not readable as JSON: {wrong}") from None
    except UnicodeDecodeError as wrong:
        fault_text = f"found {wrong.object[wrong.start]:#04x} in a text; expected UTF-8"
        raise Malformed(f"{subject} is not readable as JSON: {fault_text}") from None
    except RecursionError:
        raise Malformed(f"{subject} is nested too deeply; expected flatter JSON") from None


def decode_document(data: bytes, subject: str = "the request") -> dict[str, Any]:
    """Decode a JSON object whose fields are decoded later, one by one.

    Raises Malformed, Invalid; also for more than VALUES_MAX values, which would take long.
    """
    if len(data) > VALUES_MAX and _is_long(data):
        message = f"found more than {VALUES_MAX} values; send several requests"
        raise Invalid(subject, [Fault("", message)])
    return decode_json(data, dict[str, Any], subject)


def _is_long(data: bytes) -> bool:
    """Return whether JSON has more values than VALUES_MAX; lists and objects count for three.

    The decoder itself would hold up everything else for a second.
    """
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")
    count, quoted = 0, False
    for start in range(0, len(plain), SCANNED_BYTES):
        parts = plain[start : start + SCANNED_BYTES].split(b'"')
        bare = b"".join(parts[quoted::2])
        count += bare.count(b",") + 3 * (bare.count(b"[") + bare.count(b"{"))
        quoted ^= len(parts) % 2 == 0
        if count > VALUES_MAX:
            return True
    return False


def _decoder(of: type[Value]) -> msgspec.json.Decoder[Value]:
    decoder = _DECODERS.get(of)
    if decoder is None:
        decoder = _DECODERS[of] = msgspec.json.Decoder(of)
    return decoder


_DECODERS: dict[Any, Any] = {}
"""Decoders by request type."""


def decode_query(query: bytes, of: type[Value]) -> Value:
    """Decode a query string to a type.

    Raises Invalid for unknown, repeated or invalid parameters; Malformed for too many.
    """
    try:
        parameters = parse_qsl(
            query.decode("latin-1"), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX
        )
    except ValueError:
        raise Malformed(f"a query has at most {QUERY_FIELDS_MAX} parameters") from None
    faults = [Fault(name, "found twice; expected once") for name in _repeated(parameters)]
    faults += [Fault(name, "found a NUL character") for name, text in parameters if "\x00" in text]
    if faults:
        raise Invalid("the query", faults)
    try:
        return msgspec.convert(dict(parameters), of, strict=False)
    except msgspec.ValidationError as wrong:
        raise Invalid("the query", [parse_fault(str(wrong))]) from None


def _repeated(parameters: list[tuple[str, str]]) -> list[str]:
    names = [name for name, _ in parameters]
    return sorted({name for name in names if names.count(name) > 1})


def parse_fault(wrong: str) -> Fault:
    """Parse an error message of msgspec into field and message."""
    message, _, place = wrong.partition(_PLACE) if wrong.endswith("`") else (wrong, "", "")
    place = place.removesuffix("`").removeprefix(_KEY).removeprefix("$").removeprefix(".")
    if named := _NAMED.fullmatch(message):
        inner = f"{place}.{named['field']}" if place else named["field"]
        unknown = named["what"] == "contains unknown"
        return Fault(inner, "is not known" if unknown else "is missing")
    return Fault(place, message[:1].lower() + message[1:].replace("`", ""))
