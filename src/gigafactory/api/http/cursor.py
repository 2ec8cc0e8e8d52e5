"""Opaque cursors of paged lists, bound to their query."""

import base64
import binascii
import hashlib

import msgspec

from gigafactory.domain.errors import Fault, Invalid


class _Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    query: str
    last: str


def encode_cursor(last: str, query: object) -> str:
    """Return the cursor of the page after `last` of a query."""
    packed = msgspec.json.encode(_Cursor(_hash(query), last))
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def decode_cursor(cursor: str | None, query: object) -> str | None:
    """Decode a cursor: the last id of the previous page; None for the first page.

    Raises Invalid for a cursor that is broken, or that belongs to another query.
    """
    if cursor is None:
        return None
    try:
        packed = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        decoded = msgspec.json.decode(packed, type=_Cursor)
    except (ValueError, binascii.Error, RecursionError):
        message = "is not valid; use the unchanged nextCursor of the previous page"
        raise Invalid("the query", [Fault("cursor", message)]) from None
    if decoded.query != _hash(query) or "\x00" in decoded.last:
        message = "belongs to another query; send the same filters, or no cursor to start again"
        raise Invalid("the query", [Fault("cursor", message)])
    return decoded.last


def _hash(query: object) -> str:
    return hashlib.sha256(msgspec.json.encode(query)).hexdigest()[:16]
