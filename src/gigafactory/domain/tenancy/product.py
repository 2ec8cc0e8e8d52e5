"""Products (tenants), their scoring weights and their saved profiles."""

from datetime import datetime, timedelta
from typing import ClassVar

import msgspec

from gigafactory.domain.job.job import Priority
from gigafactory.domain.manifest.profile import Profile
from gigafactory.domain.manifest.repo import repo_identity
from gigafactory.domain.tenancy.dispatch_mode import DispatchMode

DEFAULT_PRODUCT = "default"
"""The product of a request that names none."""


class Weights(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The weight of each term of the placement score."""

    capability_fit: float = 1.0
    affinity: float = 0.5
    load: float = 1.0
    cost_fit: float = 0.75
    health: float = 1.0
    starvation: float = 1.5
    scarcity: float = 0.5
    learned: float = 0.0


class Product(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A tenant: its repos, its share of the fleet and its settings."""

    kind: ClassVar[str] = "product"
    expires_at: ClassVar[None] = None

    id: str
    repos: tuple[str, ...] = ()
    """The repos it owns, by name or address; when empty, its jobs may use any repo and folder."""
    share: float = 1.0
    """Its weight in the fair share of seat time."""
    weights: Weights = Weights()
    protected_paths: tuple[str, ...] = ()
    target_wait: dict[Priority, timedelta] = {}
    """The longest wait a job of each priority should have; longer waits are reported."""
    uses_learned_routing: bool = msgspec.field(default=False, name="routed")
    """Whether a learned-routing rollout was ever set, so that it must be loaded."""
    dispatch_mode: DispatchMode | None = msgspec.field(default=None, name="way")
    """How its jobs reach factories; None for the default of the settings."""
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key: the id."""
        return self.id

    @property
    def product_id(self) -> str:
        """The id: a product belongs to itself."""
        return self.id

    def lists(self, repo: str) -> bool:
        """Return whether a repo is listed as its own, by the whole of its name or address."""
        return repo_identity(repo) in map(repo_identity, self.repos)

    def lists_folder(self, path: str) -> bool:
        """Return whether an absolute path is in a repo that is listed by its path."""
        inside = f"{repo_identity(path)}/"
        return any(
            inside.startswith(f"{repo_identity(repo)}/") for repo in self.repos if "/" in repo
        )


class ProfileVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One saved version of a product's profile; immutable."""

    kind: ClassVar[str] = "profile"
    expires_at: ClassVar[None] = None

    product_id: str
    profile: Profile
    saved_by: str
    saved_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key, which sorts by name and version."""
        return profile_key(self.product_id, self.profile.name, self.profile.version)


def profile_key(product_id: str, name: str, version: int) -> str:
    """Return the record key of a profile version; numbers are padded so that keys sort."""
    return f"{product_id}/{name}@{version:06}"
