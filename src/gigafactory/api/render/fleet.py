"""Factories, tokens, switches and the other records of the fleet, as the API shows them."""

from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType

from gigafactory.api.render.jobs import JobView, Moment, View, maybe_moment, moment
from gigafactory.coordinator.core.ports import Message
from gigafactory.coordinator.fleet.factories import Command
from gigafactory.coordinator.insights.attention import AttentionItem
from gigafactory.domain.fleet.factory import EngineSeats, Factory, Pressure, Vitals
from gigafactory.domain.job.job import Priority
from gigafactory.domain.manifest.units import format_duration
from gigafactory.domain.tenancy.access import Enrollment, Role, Token, TokenKind
from gigafactory.domain.tenancy.product import Product, Switch, Weights


class EngineView(View, frozen=True, kw_only=True):
    """One engine on one factory."""

    version: str | None
    seats: int
    cooling_until: Moment | None
    unavailable: str | None


def engine(of: EngineSeats) -> EngineView:
    """An engine's seats."""
    return EngineView(
        version=of.version,
        seats=of.seats,
        cooling_until=maybe_moment(of.cooling_until),
        unavailable=of.unavailable,
    )


class FactoryView(View, frozen=True, kw_only=True):
    """One machine as it is now."""

    id: str
    instance_id: str
    online: bool
    health: float
    """0 to 1; below 0.3 it gets nothing."""
    draining: bool
    streaming: bool
    last_seen: Moment | None
    enrolled_at: Moment
    products: tuple[str, ...]
    os: str | None
    labels: tuple[str, ...]
    capabilities: tuple[str, ...]
    engines: dict[str, EngineView]
    slots: int
    repos: tuple[str, ...]
    cost_class: int
    sandbox: str | None
    version: str | None
    pressure: Pressure
    jobs: list[JobView] | UnsetType = UNSET
    """The jobs that it holds leases on; where one factory is shown."""


def factory(
    of: Factory,
    vitals: Vitals | None,
    *,
    online: bool,
    health: float,
    jobs: list[JobView] | UnsetType = UNSET,
) -> FactoryView:
    """A factory, with what is known of it from moment to moment."""
    return FactoryView(
        id=of.id,
        instance_id=of.instance_id,
        online=online,
        health=round(health, 3),
        draining=of.draining,
        streaming=of.streaming is not None,
        last_seen=maybe_moment(vitals.last_seen) if vitals else None,
        enrolled_at=moment(of.enrolled_at),
        products=of.products,
        os=of.os,
        labels=of.labels,
        capabilities=of.capabilities,
        engines={name: engine(seats) for name, seats in sorted(of.engines.items())},
        slots=of.slots,
        repos=of.repos,
        cost_class=of.cost_class,
        sandbox=of.sandbox,
        version=of.version,
        pressure=vitals.pressure if vitals else Pressure(),
        jobs=jobs,
    )


class FactoriesView(View, frozen=True, kw_only=True):
    """Factories by id."""

    factories: list[FactoryView]


class SettingsView(View, frozen=True, kw_only=True):
    """What a factory must keep to."""

    lease_ttl_sec: float
    renew_sec: float
    heartbeat_sec: float


class HeartbeatView(View, frozen=True, kw_only=True):
    """The coordinator's time, what to keep to, and what to do."""

    server_time: Moment
    settings: SettingsView
    commands: list[Command]


class EnrollmentView(View, frozen=True, kw_only=True):
    """An invitation, without its secret."""

    id: str
    products: tuple[str, ...]
    capabilities: tuple[str, ...] | None
    created_at: Moment
    created_by: str
    expires_at: Moment
    used_by: str | None


def enrollment(of: Enrollment) -> EnrollmentView:
    """An invitation."""
    return EnrollmentView(
        id=of.id,
        products=of.products,
        capabilities=of.capabilities,
        created_at=moment(of.created_at),
        created_by=of.created_by,
        expires_at=moment(of.expires_at),
        used_by=of.used_by,
    )


class TokenView(View, frozen=True, kw_only=True):
    """A token, without its secret."""

    id: str
    kind: TokenKind
    user: str
    role: Role | None
    products: tuple[str, ...]
    created_at: Moment
    created_by: str
    expires_at: Moment | None
    revoked_at: Moment | None
    secret: str | UnsetType = UNSET
    """Where the token is made: shown this once."""


def token(of: Token, *, secret: str | UnsetType = UNSET) -> TokenView:
    """A token."""
    return TokenView(
        id=of.id,
        kind=of.for_,
        user=of.user,
        role=of.role if of.for_ is not TokenKind.FACTORY else None,
        products=of.products,
        created_at=moment(of.created_at),
        created_by=of.created_by,
        expires_at=maybe_moment(of.expires_at),
        revoked_at=maybe_moment(of.revoked_at),
        secret=secret,
    )


class ProductView(View, frozen=True, kw_only=True):
    """A tenant and its settings."""

    id: str
    repos: tuple[str, ...]
    share: float
    weights: Weights
    protected_paths: tuple[str, ...]
    target_wait: dict[Priority, str]


def product(of: Product) -> ProductView:
    """A product."""
    return ProductView(
        id=of.id,
        repos=of.repos,
        share=of.share,
        weights=of.weights,
        protected_paths=of.protected_paths,
        target_wait={key: format_duration(wait) for key, wait in of.target_wait.items()},
    )


class SwitchView(View, frozen=True, kw_only=True):
    """The kill switch of a product, or with `*` of the fleet."""

    product: str
    halted: bool
    by: str
    reason: str
    at: Moment
    stopping: int | UnsetType = UNSET
    """After a halt with `stop`: how many workers were asked to hand back."""


def switch(of: Switch, *, stopping: int | UnsetType = UNSET) -> SwitchView:
    """A switch."""
    return SwitchView(
        product=of.product_id,
        halted=of.halted,
        by=of.by,
        reason=of.reason,
        at=moment(of.at),
        stopping=stopping,
    )


class MatterView(View, frozen=True, kw_only=True):
    """One thing that waits for a person, and what can be done about it."""

    kind: str
    subject: str
    title: str
    since: Moment
    reason: str
    actions: tuple[str, ...]
    product_id: str | None


def matter(of: AttentionItem) -> MatterView:
    """A matter."""
    return MatterView(
        kind=of.kind,
        subject=of.subject,
        title=of.title,
        since=moment(of.since),
        reason=of.reason,
        actions=of.actions,
        product_id=of.product_id,
    )


def message(of: Message) -> dict[str, Any]:
    """The data of an offer or a command."""
    return {
        key: moment(value) if isinstance(value, datetime) else value
        for key, value in of.data.items()
    }
