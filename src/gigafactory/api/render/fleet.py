"""Rendering of fleet records: factories, tokens, products, switches."""

from msgspec import UNSET, UnsetType

from gigafactory.coordinator.insights.attention import AttentionItem
from gigafactory.domain.fleet.factory import EngineSeats, Factory, Pressure, Vitals
from gigafactory.domain.manifest.units import format_duration
from gigafactory.domain.tenancy.access import Enrollment, Token, TokenKind
from gigafactory.domain.tenancy.halt_switch import HaltSwitch
from gigafactory.domain.tenancy.product import Product
from gigafactory.wire.admin import AttentionItemView, SwitchView, TokenView
from gigafactory.wire.fields import optional_timestamp, timestamp
from gigafactory.wire.fleet import (
    EngineView,
    EnrollmentView,
    FactoryView,
)
from gigafactory.wire.jobs import JobView
from gigafactory.wire.products import ProductView


def render_engine(of: EngineSeats) -> EngineView:
    """Render an engine's seats."""
    return EngineView(
        version=of.version,
        seats=of.seats,
        cooling_until=optional_timestamp(of.cooling_until),
        unavailable=of.unavailable,
    )


def render_factory(
    of: Factory,
    vitals: Vitals | None,
    *,
    online: bool,
    health: float,
    jobs: tuple[JobView, ...] | UnsetType = UNSET,
) -> FactoryView:
    """Render a factory with its vitals."""
    return FactoryView(
        id=of.id,
        instance_id=of.instance_id,
        online=online,
        health=round(health, 3),
        draining=of.draining,
        streaming=of.streaming is not None,
        last_seen=optional_timestamp(vitals.last_seen) if vitals else None,
        enrolled_at=timestamp(of.enrolled_at),
        products=of.products,
        os=of.os,
        labels=of.labels,
        capabilities=of.capabilities,
        engines={name: render_engine(seats) for name, seats in sorted(of.engines.items())},
        slots=of.slots,
        repos=of.repos,
        cost_class=of.cost_class,
        sandbox=of.sandbox,
        version=of.version,
        pressure=vitals.pressure if vitals else Pressure(),
        jobs=jobs,
    )


def render_enrollment(of: Enrollment) -> EnrollmentView:
    """Render an enrollment."""
    return EnrollmentView(
        id=of.id,
        products=of.products,
        capabilities=of.capabilities,
        created_at=timestamp(of.created_at),
        created_by=of.created_by,
        expires_at=timestamp(of.expires_at),
        used_by=of.used_by,
    )


def render_token(of: Token, *, secret: str | UnsetType = UNSET) -> TokenView:
    """Render a token."""
    return TokenView(
        id=of.id,
        kind=of.for_,
        user=of.user,
        role=of.role if of.for_ is not TokenKind.FACTORY else None,
        products=of.products,
        created_at=timestamp(of.created_at),
        created_by=of.created_by,
        expires_at=optional_timestamp(of.expires_at),
        revoked_at=optional_timestamp(of.revoked_at),
        secret=secret,
    )


def render_product(of: Product) -> ProductView:
    """Render a product."""
    return ProductView(
        id=of.id,
        repos=of.repos,
        share=of.share,
        weights=of.weights,
        protected_paths=of.protected_paths,
        target_wait={key: format_duration(wait) for key, wait in of.target_wait.items()},
    )


def render_switch(of: HaltSwitch, *, stopping: int | UnsetType = UNSET) -> SwitchView:
    """Render a halt switch."""
    return SwitchView(
        product=of.product_id,
        halted=of.halted,
        by=of.by,
        reason=of.reason,
        at=timestamp(of.at),
        stopping=stopping,
    )


def render_attention_item(of: AttentionItem) -> AttentionItemView:
    """Render an attention item."""
    return AttentionItemView(
        kind=of.kind,
        subject=of.subject,
        title=of.title,
        since=timestamp(of.since),
        reason=of.reason,
        actions=of.actions,
        product_id=of.product_id,
        commit=of.commit,
    )
