"""Leases: grant, renew, fence, expire, hand back, preempt."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import msgspec

from gigafactory.domain.errors import Conflict, Fenced
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import Guard, JobChange, LeaseExpiredGuard, Renewal
from gigafactory.domain.job.job import (
    Exclusion,
    Job,
    Lease,
    Preemption,
    Result,
    Stage,
    Step,
)
from gigafactory.domain.job.lifecycle import (
    format_time,
    make_events,
    require_action,
    require_ready,
    transition,
)
from gigafactory.domain.job.retry import is_poison

EXCLUSION_TTL = timedelta(seconds=30)
PREEMPTION_GRACE = timedelta(seconds=60)
FENCED_KEPT = 16


def lock_key(product_id: str, lock: str) -> str:
    """Return the unique key of a lock: one per product and name."""
    return f"lock/{product_id}/{lock}"


def run_id(job_id: str, epoch: int) -> str:
    """Return the id of the run of an epoch."""
    return f"{job_id}.{epoch}"


def exclude(job: Job, factory_id: str, now: datetime) -> tuple[Exclusion, ...]:
    """Return the job's current exclusions plus this factory."""
    others = tuple(e for e in job.exclusions if e.until > now and e.factory_id != factory_id)
    return (*others, Exclusion(factory_id, now + EXCLUSION_TTL))


def grant(  # noqa: PLR0913 - all of this makes up a lease
    job: Job,
    factory_id: str,
    instance_id: str,
    engine: str | None,
    *,
    now: datetime,
    ttl: timedelta,
    seats: tuple[str, ...] = (),
    decision: dict[str, Any] | None = None,
    guards: tuple[Guard, ...] = (),
) -> JobChange:
    """Lease the job to a factory: epoch + 1, together with its lock and seats.

    Raises IllegalTransition if the job does not wait for a factory, or its `not_before` is ahead.
    """
    wanted = require_ready(job, Stage.ASSIGNED, now=now)
    epoch = job.lease_epoch + 1
    running = wanted is Step.RUN
    lock = (lock_key(job.product_id, job.lock),) if job.lock and running else ()
    lease = Lease(
        factory_id=factory_id,
        instance_id=instance_id,
        epoch=epoch,
        run_id=run_id(job.id, epoch),
        step=wanted,
        engine=engine,
        granted_at=now,
        expires_at=now + ttl,
        holds=(*lock, *seats),
    )
    note = {
        "factoryId": factory_id,
        "epoch": epoch,
        "runId": lease.run_id,
        "engine": engine,
        "step": lease.step,
        "decision": decision or {},
    }
    return transition(
        job,
        Stage.ASSIGNED if running else None,
        (event_types.ASSIGNED, note),
        actor=f"factory:{factory_id}",
        now=now,
        take=lease.holds,
        guards=guards,
        lease=lease,
        lease_epoch=epoch,
        offer=None,
        engine=engine or job.engine,
        runs=job.runs + running,
        front=False,
        # The verify result of an earlier run does not apply to this one.
        verified=None if running or job.composite else job.verified,
    )


def require_lease(job: Job, factory_id: str, epoch: int) -> Lease:
    """Return the live lease of a worker.

    Raises Fenced if the epoch is stale, or the lease has ended or belongs to another factory.
    """
    lease = job.lease
    if (
        lease is None
        or lease.factory_id != factory_id
        or lease.epoch != epoch
        or epoch != job.lease_epoch
    ):
        raise Fenced(job.id, request_epoch=epoch, current=job.lease_epoch)
    return lease


def record_fenced(job: Job, factory_id: str, epoch: int, *, now: datetime) -> JobChange | None:
    """Record a fenced write, once per factory and epoch; the revision stays the same."""
    mark = f"{factory_id}@{epoch}"
    if mark in job.fenced:
        return None
    at = max(now, job.updated_at)
    after = msgspec.structs.replace(
        job, seq=job.seq + 1, updated_at=at, fenced=(*job.fenced, mark)[-FENCED_KEPT:]
    )
    note = (
        event_types.FENCED,
        {"factoryId": factory_id, "presented": epoch, "current": job.lease_epoch},
    )
    return JobChange(
        before=job,
        after=after,
        events=make_events(after, job.seq, (note,), actor=f"factory:{factory_id}", at=at),
    )


def renew(job: Job, factory_id: str, epoch: int, *, now: datetime, ttl: timedelta) -> Renewal:
    """Renew a lease for `ttl` from now; also an expired one that was not ended yet.

    Raises Fenced.
    """
    lease = require_lease(job, factory_id, epoch)
    until = now + ttl
    if job.preemption is not None:
        until = min(until, job.preemption.deadline)
    return Renewal(job.id, epoch, max(until, lease.expires_at))


def resume_lease(job: Job, instance_id: str, *, now: datetime) -> JobChange:
    """Let a restarted factory resume a run of its previous instance."""
    assert job.lease is not None, "only a leased job is resumed"
    lease = msgspec.structs.replace(job.lease, instance_id=instance_id)
    note = {"factoryId": lease.factory_id, "instanceId": instance_id, "epoch": lease.epoch}
    return transition(
        job,
        None,
        (event_types.TAKEN_UP, note),
        actor=f"factory:{lease.factory_id}",
        now=now,
        lease=lease,
    )


def hand_back(
    job: Job,
    result: Result,
    reason: str,
    *,
    actor: str,
    now: datetime,
    not_before: datetime | None = None,
) -> JobChange:
    """Put the job back into the queue without counting an attempt, and exclude the factory briefly.

    A worker that reports was not lost: the count of lost leases starts again.
    """
    lease = job.lease
    assert lease is not None, "only a leased job is handed back"
    kinds = {Result.RATE_LIMITED: event_types.RATE_LIMITED, Result.PREEMPTED: event_types.PREEMPTED}
    note = {"factoryId": lease.factory_id, "epoch": lease.epoch, "result": result, "reason": reason}
    preempted = result is Result.PREEMPTED
    if job.preemption is not None:
        note["by"] = job.preemption.by
    running = lease.step is Step.RUN
    return transition(
        job,
        Stage.QUEUED if running else None,
        (kinds.get(result, event_types.RELEASED), note),
        actor=actor,
        now=now,
        free=lease.holds,
        lease=None,
        preemption=None,
        lost=0,
        result=result if running else job.result,
        reason=reason,
        not_before=not_before,
        exclusions=exclude(job, lease.factory_id, now),
        front=preempted or job.front,
        preempted=job.preempted + preempted,
    )


def expire(
    job: Job,
    *,
    now: datetime,
    actor: str = "system:reaper",
    restarted: bool = False,
    live_instances: Collection[str] = (),
) -> JobChange:
    """End the lease of a silent factory: epoch + 1, checkpoint kept; too many in a row are poison.

    `restarted`: the factory restarted without this run, so the lease ends before it expires.
    `live_instances`: the factory processes that are online now.
    """
    lease = job.lease
    assert lease is not None, "only a leased job expires"
    guards = () if restarted else (LeaseExpiredGuard(job.id, lease.epoch, now),)
    preempted = job.preemption is not None
    lost = 0 if preempted else job.lost + 1
    # Jobs of an older program have lost leases without names.
    lost_instances = (("",) * job.lost + job.lost_instances)[-job.lost :] if job.lost else ()
    instances = (*lost_instances, lease.instance_id)
    reason = "the factory restarted without this run" if restarted else "the lease ran out"
    note = {"factoryId": lease.factory_id, "epoch": lease.epoch, "reason": reason, "lost": lost}
    if job.preemption is not None:
        note["by"] = job.preemption.by
    fields: dict[str, Any] = {
        "lease": None,
        "lease_epoch": job.lease_epoch + 1,
        "preemption": None,
        "front": job.front or preempted,
        "preempted": job.preempted + preempted,
    }
    to: Stage | None = Stage.QUEUED
    notes: list[tuple[str, dict[str, Any]]] = [(event_types.LEASE_EXPIRED, note)]
    if lease.step is Step.SHIP:
        to = None
    elif not preempted and is_poison(instances, live_instances):
        why = (
            f"{lost} leases in a row were lost without a newer checkpoint;"
            " look at the log before requeueing"
        )
        to = Stage.DEAD_LETTER
        notes.append((event_types.DEAD_LETTERED, {"result": Result.POISON, "reason": why}))
        fields |= {"lost": lost, "lost_instances": instances}
        fields |= {"result": Result.POISON, "reason": why}
    else:
        fields |= {
            "lost": lost,
            "lost_instances": () if preempted else instances,
            "result": Result.PREEMPTED if preempted else Result.LOST,
            "reason": reason,
        }
    return transition(
        job, to, *notes, actor=actor, now=now, free=lease.holds, guards=guards, **fields
    )


def revoke_lease(job: Job) -> dict[str, Any]:
    """Return the fields that revoke a lease: epoch + 1, keys held until the worker stops."""
    if job.lease is None:
        return {}
    return {
        "lease": None,
        "ending": (*job.ending, job.lease),
        "lease_epoch": job.lease_epoch + 1,
        "preemption": None,
    }


def release_revoked(
    job: Job, epoch: int, *, now: datetime, actor: str, expired: bool = False
) -> JobChange:
    """Release the unique keys of a revoked lease: its worker has stopped, or the lease expired."""
    lease = next((lease for lease in job.ending if lease.epoch == epoch), None)
    assert lease is not None, "only a revoked lease is released"
    note = {
        "factoryId": lease.factory_id,
        "epoch": epoch,
        "reason": "time is up" if expired else "stopped",
    }
    return transition(
        job,
        None,
        (event_types.RELEASED, note),
        actor=actor,
        now=now,
        free=lease.holds,
        guards=(LeaseExpiredGuard(job.id, epoch, now),) if expired else (),
        ending=tuple(other for other in job.ending if other.epoch != epoch),
    )


def request_preemption(
    job: Job, by: str, reason: str, *, now: datetime, actor: str | None = None
) -> JobChange:
    """Ask the worker to checkpoint and hand the job back; the lease ends after the grace period.

    `actor` requests it on behalf of `by`, if that is a job.
    Raises IllegalTransition unless the job is running, Conflict if it was already requested.
    """
    require_action(job, "preempt")
    lease = job.lease
    assert lease is not None, "a running job has a lease"
    if job.preemption is not None:
        # A second request must not move the deadline of the first.
        raise Conflict(
            f"job {job.id} is already asked to hand back, by {job.preemption.by};"
            f" it loses its lease at {format_time(job.preemption.deadline)} at the latest"
        )
    deadline = now + PREEMPTION_GRACE
    return transition(
        job,
        None,
        (
            event_types.PREEMPT_REQUESTED,
            {"by": by, "reason": reason, "factoryId": lease.factory_id},
        ),
        actor=actor or by,
        now=now,
        preemption=Preemption(by=by, reason=reason, deadline=deadline),
        lease=msgspec.structs.replace(lease, expires_at=min(lease.expires_at, deadline)),
    )
