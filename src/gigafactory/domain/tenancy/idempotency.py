"""Idempotency records: answers to requests that carried an Idempotency-Key."""

from datetime import datetime
from typing import ClassVar

import msgspec

from gigafactory.domain.job.change import FLEET


class IdempotencyRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The stored answer to a request with an Idempotency-Key, kept for a day."""

    kind: ClassVar[str] = "answer"
    product_id: ClassVar[str] = FLEET

    key: str
    """The caller and the Idempotency-Key."""
    request_hash: str
    value: msgspec.Raw
    expires_at: datetime
    rev: int = 1
