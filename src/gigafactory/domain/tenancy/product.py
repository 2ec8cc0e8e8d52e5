"""Products, the halt switch and the other small records of governance."""

from datetime import datetime, timedelta
from typing import ClassVar

import msgspec

from gigafactory.domain.job.change import FLEET
from gigafactory.domain.job.job import Priority
from gigafactory.domain.manifest.profile import Profile
from gigafactory.domain.tenancy.dispatch_mode import Way

DEFAULT = "default"
"""The product of whoever has not chosen one."""


class Weights(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How much each term of the score counts."""

    capability_fit: float = 1.0
    affinity: float = 0.5
    load: float = 1.0
    cost_fit: float = 0.75
    health: float = 1.0
    starvation: float = 1.5
    scarcity: float = 0.5
    learned: float = 0.0


class Product(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tenant: which repos it owns, its share of the fleet, its settings."""

    kind: ClassVar[str] = "product"
    expires_at: ClassVar[None] = None

    id: str
    repos: tuple[str, ...] = ()
    """The repos that it owns; empty when it does not say, and then any repo may be named."""
    share: float = 1.0
    """Its weight in the fair sharing of seat-time."""
    weights: Weights = Weights()
    protected_paths: tuple[str, ...] = ()
    target_wait: dict[Priority, timedelta] = {}
    """How long a job of a priority should wait at most; what waits longer is told."""
    routed: bool = False
    """Whether somebody has ever set how far what was learned decides: then that is looked up."""
    way: Way | None = None
    """How its jobs reach factories; None: as the settings say."""
    rev: int = 1

    @property
    def key(self) -> str:
        """Products are found by their id."""
        return self.id

    @property
    def product_id(self) -> str:
        """A product belongs to itself."""
        return self.id


class Switch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The kill switch of one product, or of the fleet; grants are guarded by its revision."""

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
        """One switch a product."""
        return self.product_id


class Leader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which coordinator holds a duty that only one may do; its revision is the reign's epoch."""

    kind: ClassVar[str] = "leader"
    expires_at: ClassVar[None] = None
    product_id: ClassVar[str] = FLEET

    duty: str
    holder: str
    rev: int = 1

    @property
    def key(self) -> str:
        """One leader a duty."""
        return self.duty


class Beat(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Until when a duty's leader is taken to be alive, and when renewals were last servable."""

    kind: ClassVar[str] = "beat"
    expires_at: ClassVar[None] = None
    product_id: ClassVar[str] = FLEET

    duty: str
    until: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """One beat a duty."""
        return self.duty


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a request with an Idempotency-Key was answered, kept for a day."""

    kind: ClassVar[str] = "answer"
    product_id: ClassVar[str] = FLEET

    key: str
    """Who asked, and the key."""
    request_hash: str
    value: msgspec.Raw
    expires_at: datetime
    rev: int = 1


class ProfileVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One saved version of a product's profile; never changed once written."""

    kind: ClassVar[str] = "profile"
    expires_at: ClassVar[None] = None

    product_id: str
    profile: Profile
    saved_by: str
    saved_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """In the order of the versions of each name."""
        return profile_key(self.product_id, self.profile.name, self.profile.version)


def profile_key(product_id: str, name: str, version: int) -> str:
    """Where a version is kept; numbers are padded so that keys sort as versions do."""
    return f"{product_id}/{name}@{version:06}"
