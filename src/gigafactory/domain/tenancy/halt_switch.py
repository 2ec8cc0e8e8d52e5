"""The halt switch, which stops new work of a product or of the whole fleet."""

from datetime import datetime
from typing import ClassVar

import msgspec


class HaltSwitch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The halt (kill) switch of a product or of the fleet; grants are guarded by its revision."""

    kind: ClassVar[str] = "switch"
    expires_at: ClassVar[None] = None

    product_id: str
    halted: bool
    by: str
    reason: str = ""
    at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key: one switch per product; `*` for the fleet."""
        return self.product_id
