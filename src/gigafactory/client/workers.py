"""Calls of the worker protocol; all but heartbeat and claim carry the lease epoch."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.wire.files import LogChunkQuery, LogEnd
from gigafactory.wire.fleet import HeartbeatDoc, HeartbeatView
from gigafactory.wire.jobs import JobView
from gigafactory.wire.workers import (
    AcceptDoc,
    ClaimDoc,
    GrantView,
    JobTokenDoc,
    JobTokenView,
    RenewDoc,
    RenewedView,
)

encode = msgspec.json.encode


def heartbeat(state: HeartbeatDoc) -> ApiCall[HeartbeatView]:
    """Send a factory's heartbeat: its state, engines and running jobs; returns commands."""
    where = path("factories", "heartbeat")
    return ApiCall(method="POST", path=where, response_type=HeartbeatView, body=encode(state))


def claim(factory_id: str, *, instance_id: str, wait_s: float = 0.0) -> ApiCall[GrantView | None]:
    """Lease the best job for this factory; None if there is none within the wait."""
    doc = ClaimDoc(factory_id=factory_id, instance_id=instance_id, wait=wait_s)
    # Typed Any because mypy does not accept a union as a type object.
    response_type: Any = GrantView | None
    return ApiCall(method="POST", path=path("claim"), response_type=response_type, body=encode(doc))


def accept(factory_id: str, job_id: str, offer_id: str, *, instance_id: str) -> ApiCall[GrantView]:
    """Accept an offer: it becomes a lease."""
    doc = AcceptDoc(
        factory_id=factory_id, instance_id=instance_id, job_id=job_id, offer_id=offer_id
    )
    return ApiCall(method="POST", path=path("accept"), response_type=GrantView, body=encode(doc))


def decline(factory_id: str, job_id: str, offer_id: str, *, reason: str) -> ApiCall[JobView]:
    """Decline an offer, so that another factory gets it."""
    doc = AcceptDoc(factory_id=factory_id, job_id=job_id, offer_id=offer_id, decline=reason)
    return ApiCall(method="POST", path=path("accept"), response_type=JobView, body=encode(doc))


def offers(factory_id: str) -> ApiCall[object]:
    """Follow the offers and commands for a factory."""
    return ApiCall(method="GET", path=path("factories", factory_id, "offers"), response_type=object)


def report(
    job_id: str, epoch: int, fields: Mapping[str, Any], *, key: str | None = None
) -> ApiCall[JobView]:
    """Report on a run, with the `fields` of a `ReportDoc`; `key` if another process may retry."""
    return ApiCall(
        method="PATCH",
        path=path("jobs", job_id),
        response_type=JobView,
        body=encode({"leaseEpoch": epoch, **fields}),
        idempotency_key=key,
    )


def renew(job_id: str, epoch: int) -> ApiCall[RenewedView]:
    """Renew a lease."""
    where = path("jobs", job_id, "lease", "renew")
    return ApiCall(
        method="POST",
        path=where,
        response_type=RenewedView,
        body=encode(RenewDoc(lease_epoch=epoch)),
    )


def job_token(job_id: str, epoch: int) -> ApiCall[JobTokenView]:
    """Create a token for the agent of a job; it ends with the lease."""
    where, body = path("jobs", job_id, "token"), encode(JobTokenDoc(lease_epoch=epoch))
    return ApiCall(
        method="POST", path=where, response_type=JobTokenView, body=body, repeatable=False
    )


def log_chunk(job_id: str, epoch: int, offset: int, data: bytes) -> ApiCall[LogEnd]:
    """Append a chunk to the run's log; repeating one has no effect."""
    return ApiCall(
        method="POST",
        path=path("jobs", job_id, "logs"),
        response_type=LogEnd,
        query=LogChunkQuery(lease_epoch=epoch, offset=offset),
        body=data,
        content_type="application/octet-stream",
    )
