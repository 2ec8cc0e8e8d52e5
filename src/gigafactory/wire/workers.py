"""Records of the worker protocol: claims, leases, grants."""

from typing import Annotated, ClassVar

from msgspec import Meta

from gigafactory.domain.job.job import Priority, Step
from gigafactory.wire.fields import (
    Epoch,
    FactoryId,
    JobId,
    ManifestJson,
    RequestDoc,
    ResponseView,
    Sentence,
    Timestamp,
    Word,
)
from gigafactory.wire.jobs import JobView
from gigafactory.wire.limits import CLAIM_WAIT_MAX_S, GRANTS_MAX


class GrantView(ResponseView, frozen=True, kw_only=True):
    """A lease with everything that the worker needs to start."""

    job: JobView
    lease_epoch: int
    expires_at: Timestamp
    run_id: str
    engine: str | None
    step: Step
    manifest: ManifestJson
    body_md: str
    follow_ups: tuple[str, ...]
    protected_paths: tuple[str, ...]
    """Globs; changes there always need a human review."""
    worked_sec: float
    """Seconds of `budget.wall` that earlier runs have used."""


class OfferView(ResponseView, frozen=True, kw_only=True):
    """An offer on a factory's stream; the job itself comes with the acceptance."""

    event: ClassVar[str] = "offer"

    offer_id: str
    job_id: str
    product_id: str
    repo: str | None
    caps: tuple[str, ...]
    priority: Priority
    step: Step
    engine: str | None
    target_factory_id: str
    expires_at: Timestamp


class ShadowOfferView(ResponseView, frozen=True, kw_only=True):
    """An offer that would have been made; only compared with the claim that follows."""

    event: ClassVar[str] = "shadow"

    job_id: str
    factory_id: str
    engine: str | None
    score: float
    expires_at: Timestamp


class RenewedView(ResponseView, frozen=True, kw_only=True):
    """A renewed lease."""

    lease_epoch: int
    expires_at: Timestamp


class ClaimDoc(RequestDoc, frozen=True, kw_only=True):
    """A claim: the factory, how long it waits, and for how many jobs."""

    factory_id: FactoryId
    instance_id: Word | None = None
    wait: Annotated[float, Meta(ge=0, le=CLAIM_WAIT_MAX_S, description="seconds")] = 0.0
    max: Annotated[int, Meta(ge=1, le=GRANTS_MAX)] | None = None


class GrantsView(ResponseView, frozen=True, kw_only=True):
    """The grants of a claim with `max`."""

    grants: tuple[GrantView, ...]


class AcceptDoc(RequestDoc, frozen=True, kw_only=True):
    """Acceptance of an offer, or its decline with a reason."""

    factory_id: FactoryId
    instance_id: Word | None = None
    job_id: JobId
    offer_id: Word
    decline: Sentence | None = None


class RenewDoc(RequestDoc, frozen=True, kw_only=True):
    """The lease to renew."""

    lease_epoch: Epoch


class ReleaseDoc(RequestDoc, frozen=True, kw_only=True):
    """The lease to release, and why."""

    lease_epoch: Epoch
    reason: Sentence = ""


class JobTokenDoc(RequestDoc, frozen=True, kw_only=True):
    """The lease that the token is bound to."""

    lease_epoch: Epoch


class JobTokenView(ResponseView, frozen=True, kw_only=True):
    """The token of a job; shown once."""

    job_id: str
    token: str
    expires_at: str
