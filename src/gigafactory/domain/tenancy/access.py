"""Access control: tokens, roles, and the roles allowed to use each verb."""

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final

import msgspec

from gigafactory.domain.errors import Forbidden, NotFound
from gigafactory.domain.job.change import FLEET

OWN_PRODUCTS: Final[tuple[str, ...]] = ()
"""For a verb whose objects are looked up in, or filtered by, the caller's scope."""


class Role(StrEnum):
    """The role of a person's token."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    REVIEWER = "reviewer"
    ADMIN = "admin"


ANY_ROLE = frozenset(Role)
NON_VIEWERS = ANY_ROLE - {Role.VIEWER}
REVIEWERS = frozenset({Role.REVIEWER, Role.ADMIN})
OPERATORS = frozenset({Role.OPERATOR, Role.ADMIN})
ADMINS = frozenset({Role.ADMIN})

ROLES_BY_VERB: dict[str, frozenset[Role]] = {
    "read": ANY_ROLE,
    "submit": NON_VIEWERS,
    "approve": REVIEWERS,
    "reject": REVIEWERS,
    "request-changes": NON_VIEWERS,
    "request-review": NON_VIEWERS,
    "override-scope": REVIEWERS,
    "ship": NON_VIEWERS,
    "defect": NON_VIEWERS,
    "requeue": OPERATORS,
    "cancel": OPERATORS,
    "promote": OPERATORS,
    "preempt": OPERATORS,
    "release": OPERATORS,
    "artifacts": OPERATORS,
    "echo": NON_VIEWERS,
    "halt": OPERATORS,
    "drain": OPERATORS,
    "profiles": OPERATORS,
    "pause": OPERATORS,
    "routing": OPERATORS,
    "dispatch": OPERATORS,
    "products": ADMINS,
    "budgets": ADMINS,
    "enroll": ADMINS,
    "deregister": ADMINS,
    "tokens": ADMINS,
    "audit": NON_VIEWERS,
}
"""The roles allowed to use each verb; printed in the reference documentation."""


class TokenKind(StrEnum):
    """The kind of caller that a token identifies."""

    OPERATOR = "operator"
    FACTORY = "factory"
    LOGIN = "login"
    JOB = "job"
    """The agent working on a job, for as long as its run holds the lease."""


class Token(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A bearer token; only the hash of its secret is stored."""

    kind: ClassVar[str] = "token"

    id: str
    hash: str
    for_: TokenKind = msgspec.field(name="for")
    user: str
    """The person's name, or the id of the factory or job."""
    epoch: int | None = None
    """For a job token: the lease epoch it is bound to."""
    role: Role = Role.VIEWER
    products: tuple[str, ...] = ("*",)
    capabilities: tuple[str, ...] | None = None
    created_at: datetime
    created_by: str
    parent: str | None = None
    """The id of the token used to sign in; revoking that one also ends this one."""
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    rev: int = 1
    product_id: ClassVar[str] = "*"

    @property
    def key(self) -> str:
        """The record key: the hash of the secret."""
        return self.hash

    def is_valid(self, now: datetime) -> bool:
        """Return whether the token is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Enrollment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A one-time secret that lets one machine join the fleet as a factory."""

    kind: ClassVar[str] = "enrollment"
    product_id: ClassVar[str] = "*"

    id: str
    hash: str
    products: tuple[str, ...] = ("*",)
    capabilities: tuple[str, ...] | None = None
    created_at: datetime
    created_by: str
    expires_at: datetime
    used_by: str | None = None
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key: the hash of the secret."""
        return self.hash


class LoginCode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A one-time code that signs in a browser; it may be part of a URL."""

    kind: ClassVar[str] = "login-code"
    product_id: ClassVar[str] = "*"

    hash: str
    token_key: str
    """The key of the token that created the code; the browser gets the same access."""
    expires_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key: the hash of the code. A used code is deleted."""
        return self.hash


class SecretGuessing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last audit event about refused secrets of a kind."""

    kind: ClassVar[str] = "guessing"
    product_id: ClassVar[str] = "*"

    address: str
    attempts: int
    expires_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key: the type of the event; before, the address."""
        return self.address


class AgentScope(msgspec.Struct, frozen=True):
    """The jobs an agent may see: its own, and the composite it belongs to with all descendants."""

    job_id: str
    composite_id: str | None = None
    """None when the job belongs to no composite."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The authenticated caller of a request, with its role and scope."""

    actor: str
    """The name used in events: `user:ann`, `factory:mac-1`, `job:01k…`, `system:reaper`."""
    role: Role | None = None
    factory_id: str | None = None
    products: tuple[str, ...] = ()
    product: str | None = None
    """The product chosen for this request."""
    token: Token | None = None
    request_key: str | None = None
    """The caller's Idempotency-Key."""
    agent_scope: AgentScope | None = None
    """Set for an agent: it sees only these jobs, and may add children only to this composite."""

    def can_see(self, product_id: str) -> bool:
        """Return whether the caller's scope includes the product."""
        return FLEET in self.products or product_id in self.products

    def covers(self, product_id: str) -> bool:
        """Return whether the caller sees the product and has chosen no other one."""
        return self.can_see(product_id) and self.product in (None, product_id)

    def covers_all(self, products: Collection[str]) -> bool:
        """Return whether the caller's scope includes all these products."""
        return all(self.can_see(product) for product in products)

    def sees_any(self, products: Collection[str]) -> bool:
        """Return whether something with this scope also serves a product of the caller."""
        return FLEET in products or any(self.can_see(product) for product in products)

    @property
    def reads_fleet_log(self) -> bool:
        """Whether the caller may read events that concern the whole fleet or several products."""
        return self.role in ROLES_BY_VERB["audit"] and self.can_see(FLEET)

    def require_own_composite(self, composite_id: str) -> None:
        """Raise Forbidden if an agent adds children to a composite other than its own."""
        if self.agent_scope is None or self.agent_scope.composite_id == composite_id:
            return
        own = self.agent_scope.composite_id
        allowed = f"only to its own, {own}" if own else "to none: its job is part of no composite"
        raise Forbidden(f"{self.actor} cannot add children to {composite_id}, {allowed}")

    def require(self, verb: str, products: Collection[str]) -> None:
        """Raise Forbidden unless role and scope allow the verb on something of these products.

        The scope must cover all of them: what is shared with others is not the caller's to change.
        """
        if self.role is None or self.role not in ROLES_BY_VERB[verb]:
            roles = ", ".join(sorted(ROLES_BY_VERB[verb]))
            has = f"role {self.role}" if self.role else f"a {self.actor.split(':')[0]} token"
            raise Forbidden(f"{self.actor} has {has}; {verb} needs one of: {roles}")
        if not self.covers_all(products):
            raise Forbidden(
                f"{self.actor} covers only {', '.join(self.products) or 'no product'}, and this"
                f" concerns others too; {verb} needs a token for all of them"
            )

    def require_product(self, verb: str, product_id: str) -> None:
        """Raise Forbidden unless the role allows the verb; NotFound for a product out of scope.

        The whole fleet (`*`) is no secret: without access to all of it, Forbidden.
        """
        self.require(verb, OWN_PRODUCTS)
        if product_id == FLEET:
            self.require(verb, (product_id,))
        if not self.can_see(product_id):
            raise NotFound("product", product_id)


def sole_product(products: Collection[str]) -> str:
    """Return the only product of a scope; `*`, the fleet, for several."""
    return next(iter(products)) if len(products) == 1 else FLEET
