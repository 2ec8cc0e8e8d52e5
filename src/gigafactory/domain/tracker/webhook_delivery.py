"""Webhook deliveries of trackers: signed, and processed once."""

import hashlib
import hmac
import re
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import msgspec

from gigafactory.domain.job.change import FLEET

ID_TTL = timedelta(days=30)
FOR_EVER = datetime(9999, 1, 1, tzinfo=UTC)
PREFIX = "sha256="

_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")


class WebhookDelivery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A processed delivery: its id or signature is not accepted again."""

    kind: ClassVar[str] = "delivery"
    product_id: ClassVar[str] = FLEET

    place: str
    """The product whose tracker sent it, or `*`."""
    id: str
    """The sender's delivery id, or the signature."""
    expires_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """Product and id: ids are unique per sender."""
        return f"{self.place}/{self.id}"


def signature(secret: bytes, body: bytes) -> str:
    """Return the signature header of a delivery with this body."""
    return PREFIX + hmac.new(secret, body, hashlib.sha256).hexdigest()


def has_valid_signature(secret: bytes | None, body: bytes, signature_header: str) -> bool:
    """Return whether the body was signed with the secret; compares in constant time."""
    good = hmac.compare_digest(signature(secret or b"", body).encode(), signature_header.encode())
    return good and bool(secret)


def new_deliveries(
    place: str, delivery_id: str | None, signature_header: str, *, now: datetime
) -> list[WebhookDelivery]:
    """Return the records that detect a replay of a delivery.

    The signature covers only the body: a replay under a new id has the same one, at any time.
    """
    until = {signature_header: FOR_EVER}
    if delivery_id is not None and _ID.fullmatch(delivery_id):
        until.setdefault(delivery_id, now + ID_TTL)
    return [
        WebhookDelivery(place=place, id=name, expires_at=at) for name, at in sorted(until.items())
    ]
