"""The calls on the fleet: factories, the kill switch, what waits for people, the audit log."""

from collections.abc import Sequence
from datetime import date, datetime

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.domain.insights.run_rollup import Insights
from gigafactory.domain.job.job import Stage
from gigafactory.wire.answers import (
    Answer,
    Attention,
    AuditPage,
    Factories,
    Factory,
    Invitation,
    Membership,
    QueueState,
    Switch,
)


class Enrollment(Answer, frozen=True):
    """An invitation, without its secret."""

    id: str
    products: tuple[str, ...]
    created_at: datetime
    created_by: str
    expires_at: datetime
    used_by: str | None


class Enrollments(Answer, frozen=True):
    """Invitations, oldest first."""

    enrollments: tuple[Enrollment, ...]


class Metrics(Answer, frozen=True):
    """The fleet in numbers."""

    stages: dict[Stage, int]
    """How many jobs there are in each."""


def factories() -> Call[Factories]:
    """Every factory that the caller may see."""
    return Call(method="GET", path=path("factories"), answer=Factories)


def factory(factory_id: str) -> Call[Factory]:
    """One factory, with the jobs that it holds."""
    return Call(method="GET", path=path("factories", factory_id), answer=Factory)


def drain(factory_id: str, *, draining: bool = True) -> Call[Factory]:
    """Have a factory take nothing new, or take work again."""
    body = msgspec.json.encode({"draining": draining})
    where = path("factories", factory_id, "drain")
    return Call(method="POST", path=where, answer=Factory, body=body)


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
) -> Call[Invitation]:
    """Make a one-time secret by which one machine can join, shown this once."""
    wanted = {"products": products, "capabilities": capabilities, "expiresIn": lasts_s}
    body = msgspec.json.encode({name: value for name, value in wanted.items() if value})
    return Call(
        method="POST", path=path("enrollments"), answer=Invitation, body=body, repeatable=False
    )


def invitations() -> Call[Enrollments]:
    """The invitations that there are, without their secrets."""
    return Call(method="GET", path=path("enrollments"), answer=Enrollments)


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


def attention() -> Call[Attention]:
    """What waits for a person."""
    return Call(method="GET", path=path("attention"), answer=Attention)


def metrics() -> Call[Metrics]:
    """How many jobs there are, stage by stage."""
    return Call(method="GET", path=path("metrics"), answer=Metrics)


def halt(product: str | None, *, reason: str = "", stop: bool = False) -> Call[Switch]:
    """Stop all offers and grants, of a product or of all."""
    body = msgspec.json.encode({"product": product, "reason": reason, "stop": stop})
    return Call(method="POST", path=path("halt"), answer=Switch, body=body)


def resume(product: str | None, *, reason: str = "") -> Call[Switch]:
    """Let offers and grants go on."""
    body = msgspec.json.encode({"product": product, "reason": reason})
    return Call(method="POST", path=path("resume"), answer=Switch, body=body)


def insights(
    by: Sequence[str], *, since: date | None = None, job: str | None = None
) -> Call[Insights]:
    """What runs came to, of the fleet, or of one job or composite."""
    day = since.isoformat() if since is not None else None
    query = {"by": ",".join(by), "since": day, "job": job}
    return Call(method="GET", path=path("insights"), answer=Insights, query=query)


def audit(*, limit: int = 50, cursor: str | None = None) -> Call[AuditPage]:
    """One page of the audit log, newest first."""
    query = {"limit": limit, "cursor": cursor}
    return Call(method="GET", path=path("audit"), answer=AuditPage, query=query)
