"""Leader election records: the coordinator that leads each singleton duty, and its heartbeat."""

from datetime import datetime
from typing import ClassVar

import msgspec

from gigafactory.domain.job.change import FLEET


class Leader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The coordinator that leads a singleton duty; its revision is the leadership epoch."""

    kind: ClassVar[str] = "leader"
    expires_at: ClassVar[None] = None
    product_id: ClassVar[str] = FLEET

    duty: str
    holder: str
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key: one leader per duty."""
        return self.duty


class LeaderHeartbeat(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The time until which the leader of a duty counts as alive; renewed while it works."""

    kind: ClassVar[str] = "beat"
    expires_at: ClassVar[None] = None
    product_id: ClassVar[str] = FLEET

    duty: str
    until: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key: one heartbeat per duty."""
        return self.duty
