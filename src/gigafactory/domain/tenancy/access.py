"""Who may do what: tokens, roles, and the table of roles and verbs."""

from datetime import datetime
from enum import StrEnum
from typing import ClassVar

import msgspec

from gigafactory.domain.errors import Forbidden


class Role(StrEnum):
    """What a person's token is good for."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    REVIEWER = "reviewer"
    ADMIN = "admin"


EVERYBODY = frozenset(Role)
ACTING = EVERYBODY - {Role.VIEWER}
REVIEWING = frozenset({Role.REVIEWER, Role.ADMIN})
OPERATING = frozenset({Role.OPERATOR, Role.ADMIN})
ADMINS = frozenset({Role.ADMIN})

ALLOWED: dict[str, frozenset[Role]] = {
    "read": EVERYBODY,
    "submit": ACTING,
    "approve": REVIEWING,
    "reject": REVIEWING,
    "request-changes": ACTING,
    "request-review": ACTING,
    "override-scope": REVIEWING,
    "ship": ACTING,
    "defect": ACTING,
    "requeue": OPERATING,
    "cancel": OPERATING,
    "promote": OPERATING,
    "preempt": OPERATING,
    "release": OPERATING,
    "artifacts": OPERATING,
    "echo": ACTING,
    "halt": OPERATING,
    "drain": OPERATING,
    "profiles": OPERATING,
    "pause": OPERATING,
    "routing": OPERATING,
    "dispatch": OPERATING,
    "products": ADMINS,
    "budgets": ADMINS,
    "enroll": ADMINS,
    "deregister": ADMINS,
    "tokens": ADMINS,
    "audit": ACTING,
}
"""Which roles may use which verb; the documentation prints this table."""


class TokenKind(StrEnum):
    """Whom a token stands for."""

    OPERATOR = "operator"
    FACTORY = "factory"
    LOGIN = "login"
    JOB = "job"
    """The agent that works on a job, for as long as its run has the lease."""


class Token(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A bearer token, known by the hash of its secret alone."""

    kind: ClassVar[str] = "token"

    id: str
    hash: str
    for_: TokenKind = msgspec.field(name="for")
    user: str
    """The person's name, or the id of the factory or the job."""
    epoch: int | None = None
    """Of a job's token: it ends with the lease of this epoch."""
    role: Role = Role.VIEWER
    products: tuple[str, ...] = ("*",)
    capabilities: tuple[str, ...] | None = None
    created_at: datetime
    created_by: str
    parent: str | None = None
    """The id of the token that somebody signed in with; this one ends with it."""
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    rev: int = 1
    product_id: ClassVar[str] = "*"

    @property
    def key(self) -> str:
        """Tokens are found by the hash of the secret that a caller presents."""
        return self.hash

    def opens(self, now: datetime) -> bool:
        """Whether it is good at this moment."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Enrollment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A one-time secret by which one machine becomes a factory."""

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
        """Enrollments are found by the hash of the secret that a machine presents."""
        return self.hash


class LoginCode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A one-time code by which a person's browser signs in; it may stand in an address."""

    kind: ClassVar[str] = "login-code"
    product_id: ClassVar[str] = "*"

    hash: str
    token_key: str
    """The token of whoever made it: the browser gets what that opens, and no more."""
    expires_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """Codes are found by their hash; one that was used is not there any more."""
        return self.hash


class Guessing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An address that presented too many wrong secrets; what the audit log's line hangs on."""

    kind: ClassVar[str] = "guessing"
    product_id: ClassVar[str] = "*"

    address: str
    attempts: int
    expires_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """One record an address."""
        return self.address


class Kin(msgspec.Struct, frozen=True):
    """What an agent may know of: its job, and the composite that it is part of, with all below."""

    job_id: str
    composite_id: str | None = None
    """None for a job that is part of none."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever makes a request, with what the token admits."""

    actor: str
    """As events name it: `user:ann`, `factory:mac-1`, `job:01k…`, `system:reaper`."""
    role: Role | None = None
    factory_id: str | None = None
    products: tuple[str, ...] = ()
    product: str | None = None
    """The product chosen for this request."""
    token: Token | None = None
    request_key: str | None = None
    """The caller's Idempotency-Key."""
    kin: Kin | None = None
    """Of an agent: it sees nothing else, and adds to nothing but its composite."""

    def sees(self, product_id: str) -> bool:
        """Whether this caller may know of the product at all."""
        return "*" in self.products or product_id in self.products

    def require_own(self, composite_id: str) -> None:
        """Refuse an agent that adds to anything but the composite of its own job.

        Raises Forbidden.
        """
        if self.kin is None or self.kin.composite_id == composite_id:
            return
        own = self.kin.composite_id
        allowed = f"only to its own, {own}" if own else "to none: its job is part of no composite"
        raise Forbidden(f"{self.actor} cannot add children to {composite_id}, {allowed}")

    def require(self, verb: str) -> None:
        """Refuse a verb that the caller's role does not have.

        Raises Forbidden.
        """
        if self.role is None or self.role not in ALLOWED[verb]:
            roles = ", ".join(sorted(ALLOWED[verb]))
            has = f"role {self.role}" if self.role else f"a {self.actor.split(':')[0]} token"
            raise Forbidden(f"{self.actor} has {has}; {verb} needs one of: {roles}")
