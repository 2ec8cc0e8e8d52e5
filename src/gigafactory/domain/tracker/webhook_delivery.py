"""Deliveries of trackers: signed, and taken once."""

import hashlib
import hmac
import re
from datetime import datetime, timedelta
from typing import ClassVar

import msgspec

from gigafactory.domain.job.change import FLEET

DELIVERY_TTL = timedelta(days=30)
PREFIX = "sha256="

_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")


class WebhookDelivery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A delivery that was taken: neither its id nor its signature counts a second time."""

    kind: ClassVar[str] = "delivery"
    product_id: ClassVar[str] = FLEET

    place: str
    """The product whose tracker sent it, or `*`."""
    id: str
    """As its sender numbers it, or the signature."""
    expires_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """Senders number for themselves."""
        return f"{self.place}/{self.id}"


def signature(secret: bytes, body: bytes) -> str:
    """What the header of a delivery with this body says."""
    return PREFIX + hmac.new(secret, body, hashlib.sha256).hexdigest()


def has_valid_signature(secret: bytes | None, body: bytes, shown: str) -> bool:
    """Whether the body was signed with the secret; how long this takes tells nothing of it."""
    good = hmac.compare_digest(signature(secret or b"", body).encode(), shown.encode())
    return good and bool(secret)


def new_deliveries(
    place: str, delivery_id: str | None, shown: str, *, now: datetime
) -> list[WebhookDelivery]:
    """The records by which a delivery is known again.

    The signature covers the body alone: a replay under a new id has the same one.
    """
    names = {shown}
    if delivery_id is not None and _ID.fullmatch(delivery_id):
        names.add(delivery_id)
    until = now + DELIVERY_TTL
    return [WebhookDelivery(place=place, id=name, expires_at=until) for name in sorted(names)]
