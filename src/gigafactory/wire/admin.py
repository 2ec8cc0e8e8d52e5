"""Records of tokens, switches, attention items, audit log and health."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from gigafactory.domain.tenancy.access import Role, TokenKind
from gigafactory.wire.fields import ProductId, RequestDoc, ResponseView, Scope, Sentence, Timestamp
from gigafactory.wire.jobs import EventView


class TokenView(ResponseView, frozen=True, kw_only=True):
    """A token, without its secret."""

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
    """Where the token is made: shown this once."""


class SwitchView(ResponseView, frozen=True, kw_only=True):
    """The kill switch of a product, or with `*` of the fleet."""

    product: str
    halted: bool
    by: str
    reason: str
    at: Timestamp
    stopping: int | UnsetType = UNSET
    """After a halt with `stop`: how many workers were asked to hand back."""


class AttentionItemView(ResponseView, frozen=True, kw_only=True):
    """One thing that waits for a person, and what can be done about it."""

    kind: str
    subject: str
    title: str
    since: Timestamp
    reason: str
    actions: tuple[str, ...]
    product_id: str | None


LASTS_MAX_S = 3650 * 86_400


Person = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+@-]{0,99}$(?!\n)")]


class TokenDoc(RequestDoc, frozen=True, kw_only=True):
    """Whose token, with which role, for which products, for how long."""

    user: Person
    role: Role = Role.VIEWER
    products: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=100)] = ("*",)
    expires_in: Annotated[float, Meta(ge=1, le=LASTS_MAX_S, description="seconds")] | None = None


class TokensView(ResponseView, frozen=True, kw_only=True):
    """Tokens, oldest first, without their secrets."""

    tokens: tuple[TokenView, ...]


class LoginView(ResponseView, frozen=True, kw_only=True):
    """A code for `/login?code=…`, good for one browser within ten minutes."""

    code: str
    expires_at: Timestamp


class AuditView(ResponseView, frozen=True, kw_only=True):
    """Events that concern no job, newest first."""

    events: tuple[EventView, ...]
    next_cursor: str | None


class QueueState(ResponseView, frozen=True, kw_only=True):
    """The version moves with every create and stage change; while it stands, a claim is idle."""

    version: int
    products: dict[str, int]


class AttentionView(ResponseView, frozen=True, kw_only=True):
    """What waits for a person, the most urgent kind first."""

    attention: tuple[AttentionItemView, ...]


class SwitchesView(ResponseView, frozen=True, kw_only=True):
    """The switches that concern the caller, those that are off too."""

    switches: tuple[SwitchView, ...]


class HaltDoc(RequestDoc, frozen=True, kw_only=True):
    """What is halted, and why."""

    product: ProductId | None = None
    """One product; without it, the whole fleet."""
    reason: Sentence = ""
    stop: bool = False
    """Ask running workers to checkpoint and hand back, too."""


class ResumeDoc(RequestDoc, frozen=True, kw_only=True):
    """What is resumed, and why."""

    product: ProductId | None = None
    reason: Sentence = ""


class HealthView(ResponseView, frozen=True, kw_only=True):
    """It is there."""

    status: Literal["ok"] = "ok"


class ReadyView(ResponseView, frozen=True, kw_only=True):
    """It can serve; `position` is how far the change feed has come."""

    status: Literal["ready"] = "ready"
    position: int
