"""Builders of valid records; a test overrides the fields that matter to it."""

from datetime import UTC, datetime, timedelta

import msgspec
from msgspec.structs import replace

from gigafactory.domain.fleet.factory import EngineSeats, Factory
from gigafactory.domain.job.change import Guard, JobChange
from gigafactory.domain.job.job import (
    Ask,
    Checkpoint,
    Event,
    Job,
    JobSpec,
    Lease,
    ShipRequest,
    Stage,
    Step,
    Terms,
)
from gigafactory.domain.job.run import Run
from gigafactory.domain.tenancy.product import Product

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TTL = timedelta(seconds=90)


def after(seconds: float) -> datetime:
    """Return the time this many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def a_run(**fields: object) -> Run:
    """Return the running first run of `a_job`, on `mac-1` with claude."""
    run = Run(
        id="job-1.1",
        job_id="job-1",
        product_id="notes",
        factory_id="mac-1",
        epoch=1,
        number=1,
        step=Step.RUN,
        engine="claude",
        granted_at=NOON,
    )
    return replace(run, **fields)


def a_job(**fields: object) -> Job:
    """Return a queued job of product `notes`, submitted by ann at noon."""
    job = Job(
        id="job-1",
        product_id="notes",
        name="fix-login",
        title="Fix the login",
        ask=Ask(),
        terms=Terms(),
        content_hash="c0ffee",
        submitted_by="user:ann",
        created_at=NOON,
        updated_at=NOON,
        stage_since=NOON,
        seq=1,
    )
    return replace(job, **fields)


def a_lease(**fields: object) -> Lease:
    """Return the lease of epoch 1 for a run on mac-1, granted at noon, with one slot."""
    lease = Lease(
        factory_id="mac-1",
        instance_id="mac-1-a",
        epoch=1,
        run_id="job-1.1",
        step=Step.RUN,
        engine="claude",
        granted_at=NOON,
        expires_at=NOON + TTL,
        holds=("slot/mac-1/0",),
    )
    return replace(lease, **fields)


def a_running_job(**fields: object) -> Job:
    """Return a job that mac-1 builds, with epoch 1."""
    job = a_job(stage=Stage.BUILDING, lease=a_lease(), lease_epoch=1, runs=1)
    return replace(job, **fields)


def a_shipping_job(**fields: object) -> Job:
    """Return a job in testing that mac-1 ships, with epoch 2."""
    job = a_job(
        stage=Stage.TESTING,
        lease=a_lease(epoch=2, run_id="job-1.2", step=Step.SHIP, engine=None),
        lease_epoch=2,
        runs=1,
        checkpoint=a_checkpoint(),
        ship=ShipRequest(by="user:ann", commit="abc", at=NOON),
    )
    return replace(job, **fields)


def a_checkpoint(commit: str = "abc", **fields: object) -> Checkpoint:
    """Return a checkpoint at a commit."""
    checkpoint = Checkpoint(branch="aq/wip/job-1/1", commit=commit, factory_id="mac-1")
    return replace(checkpoint, **fields)


def a_factory(**fields: object) -> Factory:
    """Return a factory with two slots and two claude seats."""
    factory = Factory(
        id="mac-1",
        token_id="token-1",
        instance_id="mac-1-a",
        capabilities=("os:mac", "has:xcode"),
        engines={"claude": EngineSeats(version="2.1.0", seats=2)},
        slots=2,
        enrolled_at=NOON,
    )
    return replace(factory, **fields)


def an_event(job: Job | None = None, kind: str = "noted", **fields: object) -> Event:
    """Return the newest event of a job, or an entry of the audit log."""
    event = Event(type=kind, at=NOON, actor="user:ann", product_id="notes")
    if job is not None:
        event = replace(
            event, product_id=job.product_id, job_id=job.id, seq=job.seq, stage=job.stage
        )
    return replace(event, **fields)


def a_submission(job: Job, *, body: str = "Please.", **fields: object) -> JobChange:
    """Return the change that creates a job, with its first event."""
    spec = JobSpec(job.id, msgspec.Raw(b'{"name":"fix-login"}'), body)
    change = JobChange(before=None, after=job, events=(an_event(job, "submitted"),), spec=spec)
    return replace(change, **fields)


def a_step(
    job: Job,
    *,
    take: tuple[str, ...] = (),
    free: tuple[str, ...] = (),
    guards: tuple[Guard, ...] = (),
    **fields: object,
) -> JobChange:
    """Return the next change of a job, with one event, unchecked by the lifecycle."""
    after = replace(job, rev=job.rev + 1, seq=job.seq + 1, **fields)
    return JobChange(
        before=job, after=after, events=(an_event(after),), take=take, free=free, guards=guards
    )


def a_product(**fields: object) -> Product:
    """Return a product with default settings."""
    return replace(Product(id="notes"), **fields)
