"""The calls of the worker's protocol; each but the first two is fenced by the lease's epoch."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.wire.files import LogEnd
from gigafactory.wire.fleet import HeartbeatView
from gigafactory.wire.jobs import JobView
from gigafactory.wire.workers import GrantView, JobTokenView, RenewedView

encode = msgspec.json.encode


def heartbeat(told: Mapping[str, Any]) -> ApiCall[HeartbeatView]:
    """Say that a factory is there, what it has and what it runs; hear what it must do."""
    where = path("factories", "heartbeat")
    return ApiCall(method="POST", path=where, response_type=HeartbeatView, body=encode(told))


def claim(factory_id: str, *, instance_id: str, wait_s: float = 0.0) -> ApiCall[GrantView | None]:
    """Lease the best job that this factory can run; None when there is none within the wait."""
    asked = {"factoryId": factory_id, "instanceId": instance_id, "wait": wait_s}
    # A type checker does not see that a union of types is a type.
    answer: Any = GrantView | None
    return ApiCall(method="POST", path=path("claim"), response_type=answer, body=encode(asked))


def accept(factory_id: str, job_id: str, offer_id: str, *, instance_id: str) -> ApiCall[GrantView]:
    """Turn an offer into a lease."""
    asked = {
        "factoryId": factory_id,
        "instanceId": instance_id,
        "jobId": job_id,
        "offerId": offer_id,
    }
    return ApiCall(method="POST", path=path("accept"), response_type=GrantView, body=encode(asked))


def decline(factory_id: str, job_id: str, offer_id: str, *, reason: str) -> ApiCall[JobView]:
    """Turn an offer down: another factory is asked."""
    asked = {"factoryId": factory_id, "jobId": job_id, "offerId": offer_id, "decline": reason}
    return ApiCall(method="POST", path=path("accept"), response_type=JobView, body=encode(asked))


def offers(factory_id: str) -> ApiCall[object]:
    """Offers and commands for a factory, as they come."""
    return ApiCall(method="GET", path=path("factories", factory_id, "offers"), response_type=object)


def report(job_id: str, epoch: int, told: Mapping[str, Any]) -> ApiCall[JobView]:
    """Report on a run: stage, checkpoint, usage, verify, diff, note."""
    body = encode({"leaseEpoch": epoch, **told})
    return ApiCall(method="PATCH", path=path("jobs", job_id), response_type=JobView, body=body)


def renew(job_id: str, epoch: int) -> ApiCall[RenewedView]:
    """Keep a lease for another while."""
    where = path("jobs", job_id, "lease", "renew")
    return ApiCall(
        method="POST", path=where, response_type=RenewedView, body=encode({"leaseEpoch": epoch})
    )


def release(job_id: str, epoch: int, reason: str) -> ApiCall[JobView]:
    """Hand a job back unharmed."""
    where = path("jobs", job_id, "lease", "release")
    body = encode({"leaseEpoch": epoch, "reason": reason})
    return ApiCall(method="POST", path=where, response_type=JobView, body=body)


def job_token(job_id: str, epoch: int) -> ApiCall[JobTokenView]:
    """Get a token for the agent that works on a job; it ends with the lease."""
    where, body = path("jobs", job_id, "token"), encode({"leaseEpoch": epoch})
    return ApiCall(
        method="POST", path=where, response_type=JobTokenView, body=body, repeatable=False
    )


def fail(job_id: str, epoch: int, result: str, reason: str, **more: object) -> ApiCall[JobView]:
    """Report that a run has failed; the lease ends at once."""
    told = {"jobId": job_id, "leaseEpoch": epoch, "result": result, "reason": reason, **more}
    return ApiCall(method="POST", path=path("fail"), response_type=JobView, body=encode(told))


def log_chunk(job_id: str, epoch: int, offset: int, data: bytes) -> ApiCall[LogEnd]:
    """Send a chunk of the run's log; one that was sent before is harmless."""
    return ApiCall(
        method="POST",
        path=path("jobs", job_id, "logs"),
        response_type=LogEnd,
        query={"leaseEpoch": epoch, "offset": offset},
        body=data,
        content_type="application/octet-stream",
    )
