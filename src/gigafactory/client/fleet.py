"""The calls on the fleet: factories, the kill switch, what waits for people, the audit log."""

from collections.abc import Sequence
from datetime import date

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.domain.insights.run_rollup import Insights
from gigafactory.wire.admin import AttentionView, AuditView, QueueState, SwitchView
from gigafactory.wire.fleet import (
    EnrollmentsView,
    FactoriesView,
    FactoryView,
    FleetMetrics,
    InvitationView,
    Membership,
)


def factories() -> Call[FactoriesView]:
    """Every factory that the caller may see."""
    return Call(method="GET", path=path("factories"), answer=FactoriesView)


def factory(factory_id: str) -> Call[FactoryView]:
    """One factory, with the jobs that it holds."""
    return Call(method="GET", path=path("factories", factory_id), answer=FactoryView)


def drain(factory_id: str, *, draining: bool = True) -> Call[FactoryView]:
    """Have a factory take nothing new, or take work again."""
    body = msgspec.json.encode({"draining": draining})
    where = path("factories", factory_id, "drain")
    return Call(method="POST", path=where, answer=FactoryView, body=body)


def deregister(factory_id: str) -> Call[None]:
    """Remove a factory that is gone."""
    return Call(method="DELETE", path=path("factories", factory_id), answer=type(None))


def rotate(factory_id: str) -> Call[Membership]:
    """Give a factory a new token, shown this once."""
    where = path("factories", factory_id, "token", "rotate")
    return Call(method="POST", path=where, answer=Membership, repeatable=False)


def revoke(factory_id: str) -> Call[dict[str, str]]:
    """End a factory's token."""
    where = path("factories", factory_id, "token", "revoke")
    return Call(method="POST", path=where, answer=dict[str, str])


def invite(
    products: Sequence[str],
    *,
    capabilities: Sequence[str] | None = None,
    lasts_s: float | None = None,
) -> Call[InvitationView]:
    """Make a one-time secret by which one machine can join, shown this once."""
    wanted = {"products": products, "capabilities": capabilities, "expiresIn": lasts_s}
    body = msgspec.json.encode({name: value for name, value in wanted.items() if value})
    return Call(
        method="POST", path=path("enrollments"), answer=InvitationView, body=body, repeatable=False
    )


def invitations() -> Call[EnrollmentsView]:
    """The invitations that there are, without their secrets."""
    return Call(method="GET", path=path("enrollments"), answer=EnrollmentsView)


def withdraw(invitation: str) -> Call[None]:
    """Take an invitation back."""
    return Call(method="DELETE", path=path("enrollments", invitation), answer=type(None))


def enroll(
    secret: str, factory_id: str, *, os: str | None = None, labels: Sequence[str] = ()
) -> Call[Membership]:
    """Exchange a one-time secret for the factory's own token, shown this once."""
    told = {"secret": secret, "factoryId": factory_id, "os": os, "labels": labels}
    where = path("factories", "enroll")
    body = msgspec.json.encode(told)
    return Call(method="POST", path=where, answer=Membership, body=body, repeatable=False)


def queue_state() -> Call[QueueState]:
    """How far the queue has moved: with the same number as before there is nothing new."""
    return Call(method="GET", path=path("queue-state"), answer=QueueState)


def attention() -> Call[AttentionView]:
    """What waits for a person."""
    return Call(method="GET", path=path("attention"), answer=AttentionView)


def metrics() -> Call[FleetMetrics]:
    """How many jobs there are, stage by stage."""
    return Call(method="GET", path=path("metrics"), answer=FleetMetrics)


def halt(product: str | None, *, reason: str = "", stop: bool = False) -> Call[SwitchView]:
    """Stop all offers and grants, of a product or of all."""
    body = msgspec.json.encode({"product": product, "reason": reason, "stop": stop})
    return Call(method="POST", path=path("halt"), answer=SwitchView, body=body)


def resume(product: str | None, *, reason: str = "") -> Call[SwitchView]:
    """Let offers and grants go on."""
    body = msgspec.json.encode({"product": product, "reason": reason})
    return Call(method="POST", path=path("resume"), answer=SwitchView, body=body)


def insights(
    by: Sequence[str], *, since: date | None = None, job: str | None = None
) -> Call[Insights]:
    """What runs came to, of the fleet, or of one job or composite."""
    day = since.isoformat() if since is not None else None
    query = {"by": ",".join(by), "since": day, "job": job}
    return Call(method="GET", path=path("insights"), answer=Insights, query=query)


def audit(*, limit: int = 50, cursor: str | None = None) -> Call[AuditView]:
    """One page of the audit log, newest first."""
    query = {"limit": limit, "cursor": cursor}
    return Call(method="GET", path=path("audit"), answer=AuditView, query=query)
