"""Calls on the fleet: factories, halt switch, attention items, audit log."""

from collections.abc import Sequence
from datetime import date

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.wire.admin import (
    AttentionView,
    AuditQuery,
    AuditView,
    HaltDoc,
    QueueState,
    ResumeDoc,
    SwitchView,
)
from gigafactory.wire.fleet import (
    DrainDoc,
    EnrollDoc,
    EnrollmentsView,
    FactoriesView,
    FactoryView,
    FleetMetrics,
    InvitationView,
    InviteDoc,
    Membership,
    RevokedView,
)
from gigafactory.wire.insights import InsightsQuery, InsightsView
from gigafactory.wire.limits import INVITATION_LASTS


def factories() -> ApiCall[FactoriesView]:
    """List the factories that the caller may see."""
    return ApiCall(method="GET", path=path("factories"), response_type=FactoriesView)


def factory(factory_id: str) -> ApiCall[FactoryView]:
    """Return one factory with the jobs it holds."""
    return ApiCall(method="GET", path=path("factories", factory_id), response_type=FactoryView)


def drain(factory_id: str, *, draining: bool = True) -> ApiCall[FactoryView]:
    """Drain a factory, or let it take work again."""
    body = msgspec.json.encode(DrainDoc(draining=draining))
    where = path("factories", factory_id, "drain")
    return ApiCall(method="POST", path=where, response_type=FactoryView, body=body)


def deregister(factory_id: str) -> ApiCall[None]:
    """Remove a factory that is gone."""
    return ApiCall(method="DELETE", path=path("factories", factory_id), response_type=type(None))


def rotate(factory_id: str) -> ApiCall[Membership]:
    """Rotate a factory's token; the new one is shown once."""
    where = path("factories", factory_id, "token", "rotate")
    return ApiCall(method="POST", path=where, response_type=Membership, repeatable=False)


def revoke(factory_id: str) -> ApiCall[RevokedView]:
    """Revoke a factory's token."""
    where = path("factories", factory_id, "token", "revoke")
    return ApiCall(method="POST", path=where, response_type=RevokedView)


def invite(
    products: Sequence[str],
    *,
    capabilities: Sequence[str] | None = None,
    lasts_s: float | None = None,
) -> ApiCall[InvitationView]:
    """Create an enrollment secret for one machine; it is shown once."""
    doc = InviteDoc(
        products=tuple(products),
        capabilities=tuple(capabilities) if capabilities else None,
        expires_in=lasts_s or INVITATION_LASTS.total_seconds(),
    )
    return ApiCall(
        method="POST",
        path=path("enrollments"),
        response_type=InvitationView,
        body=msgspec.json.encode(doc),
        repeatable=False,
    )


def invitations() -> ApiCall[EnrollmentsView]:
    """List enrollments, without their secrets."""
    return ApiCall(method="GET", path=path("enrollments"), response_type=EnrollmentsView)


def withdraw(invitation: str) -> ApiCall[None]:
    """Withdraw an enrollment."""
    return ApiCall(method="DELETE", path=path("enrollments", invitation), response_type=type(None))


def enroll(
    secret: str, factory_id: str, *, os: str | None = None, labels: Sequence[str] = ()
) -> ApiCall[Membership]:
    """Exchange an enrollment secret for the factory's token; it is shown once."""
    doc = EnrollDoc(secret=secret, factory_id=factory_id, os=os, labels=tuple(labels))
    where = path("factories", "enroll")
    body = msgspec.json.encode(doc)
    return ApiCall(method="POST", path=where, response_type=Membership, body=body, repeatable=False)


def queue_state() -> ApiCall[QueueState]:
    """Return the queue version; it is unchanged while there is nothing new."""
    return ApiCall(method="GET", path=path("queue-state"), response_type=QueueState)


def attention() -> ApiCall[AttentionView]:
    """List attention items."""
    return ApiCall(method="GET", path=path("attention"), response_type=AttentionView)


def metrics() -> ApiCall[FleetMetrics]:
    """Return the fleet metrics: job counts by stage, capacity."""
    return ApiCall(method="GET", path=path("metrics"), response_type=FleetMetrics)


def halt(product: str | None, *, reason: str = "", stop: bool = False) -> ApiCall[SwitchView]:
    """Halt all offers and grants of a product, or of the fleet."""
    body = msgspec.json.encode(HaltDoc(product=product, reason=reason, stop=stop))
    return ApiCall(method="POST", path=path("halt"), response_type=SwitchView, body=body)


def resume(product: str | None, *, reason: str = "") -> ApiCall[SwitchView]:
    """Resume offers and grants."""
    body = msgspec.json.encode(ResumeDoc(product=product, reason=reason))
    return ApiCall(method="POST", path=path("resume"), response_type=SwitchView, body=body)


def insights(
    by: Sequence[str], *, since: date | None = None, job: str | None = None
) -> ApiCall[InsightsView]:
    """Return roll-ups of runs of the fleet, or of one job or composite."""
    query = InsightsQuery(by=",".join(by), since=since, job=job)
    return ApiCall(method="GET", path=path("insights"), response_type=InsightsView, query=query)


def audit(*, limit: int = 50, cursor: str | None = None) -> ApiCall[AuditView]:
    """Return one page of the audit log, newest first."""
    query = AuditQuery(limit=limit, cursor=cursor)
    return ApiCall(method="GET", path=path("audit"), response_type=AuditView, query=query)
