"""Records of tokens, switches, attention items, audit log and health."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from gigafactory.domain.tenancy.access import Role, TokenKind
from gigafactory.wire.fields import (
    Cursor,
    PageLimit,
    ProductId,
    RequestDoc,
    ResponseView,
    Scope,
    Sentence,
    Timestamp,
)
from gigafactory.wire.jobs import EventView


class TokenView(ResponseView, frozen=True, kw_only=True):
    """A token; its secret only when it is created."""

    id: str
    kind: TokenKind
    user: str
    role: Role | None
    products: tuple[str, ...]
    created_at: Timestamp
    created_by: str
    expires_at: Timestamp | None
    revoked_at: Timestamp | None
    secret: str | UnsetType = UNSET
    """Only when the token is created; shown once."""


class SwitchView(ResponseView, frozen=True, kw_only=True):
    """The halt switch of a product, or of the fleet (`*`)."""

    product: str
    halted: bool
    by: str
    reason: str
    at: Timestamp
    stopping: int | UnsetType = UNSET
    """After a halt with `stop`: number of workers asked to release their jobs."""


class AttentionItemView(ResponseView, frozen=True, kw_only=True):
    """Something that needs a person, and the possible actions."""

    kind: str
    subject: str
    title: str
    since: Timestamp
    reason: str
    actions: tuple[str, ...]
    product_id: str | None
    commit: str | None = None
    """The commit of the job; a decision on it carries this one."""


LASTS_MAX_S = 3650 * 86_400


Person = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+@-]{0,99}$(?!\n)")]


class TokenDoc(RequestDoc, frozen=True, kw_only=True):
    """A token for a person: role, products, lifetime."""

    user: Person
    role: Role = Role.VIEWER
    products: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=100)] = ("*",)
    expires_in: Annotated[float, Meta(ge=1, le=LASTS_MAX_S, description="seconds")] | None = None


class TokensView(ResponseView, frozen=True, kw_only=True):
    """Tokens, oldest first, without their secrets."""

    tokens: tuple[TokenView, ...]


class LoginView(ResponseView, frozen=True, kw_only=True):
    """A code for `/login?code=…`, valid once within ten minutes."""

    code: str
    url: str
    """The address that signs a browser in."""
    expires_at: Timestamp


class AuditView(ResponseView, frozen=True, kw_only=True):
    """Events that concern no job, newest first."""

    events: tuple[EventView, ...]
    next_cursor: str | None


class QueueState(ResponseView, frozen=True, kw_only=True):
    """Queue version; changes with every new job and stage change."""

    version: int
    products: dict[str, int]


class AttentionView(ResponseView, frozen=True, kw_only=True):
    """Attention items, most urgent kind first."""

    attention: tuple[AttentionItemView, ...]


class SwitchesView(ResponseView, frozen=True, kw_only=True):
    """Halt switches that the caller may see, including those that are off."""

    switches: tuple[SwitchView, ...]


class HaltDoc(RequestDoc, frozen=True, kw_only=True):
    """The product to halt, and why."""

    product: ProductId | None = None
    """Default: the whole fleet."""
    reason: Sentence = ""
    stop: bool = False
    """Also ask running workers to checkpoint and release their jobs."""


class ResumeDoc(RequestDoc, frozen=True, kw_only=True):
    """The product to resume, and why."""

    product: ProductId | None = None
    reason: Sentence = ""


class HealthView(ResponseView, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["ok"] = "ok"


class ReadyView(ResponseView, frozen=True, kw_only=True):
    """The store answers; `position` is the head of the change feed."""

    status: Literal["ready"] = "ready"
    position: int
    rollbacks: int = 0
    """How often the database was found to have lost stored history since the start."""


class AuditQuery(RequestDoc, frozen=True, kw_only=True):
    """Page of the audit log."""

    limit: PageLimit = 50
    cursor: Cursor | None = None
    """`nextCursor` of the previous page."""
