"""Records of runs."""

from typing import Any

from gigafactory.domain.job.job import Result, Step
from gigafactory.domain.job.run import Review
from gigafactory.wire.fields import ResponseView, Timestamp
from gigafactory.wire.usage import UsageView


class RunView(ResponseView, frozen=True, kw_only=True):
    """One attempt at a job."""

    id: str
    job_id: str
    product_id: str
    factory_id: str
    lease_epoch: int
    number: int
    attempt: int
    step: Step
    engine: str | None
    repo: str | None
    profile: str | None
    granted_at: Timestamp
    started_at: Timestamp | None
    ended_at: Timestamp | None
    result: Result | None
    reason: str | None
    usage: UsageView | None
    verify: dict[str, Any] | None
    diff: dict[str, Any] | None
    versions: dict[str, str]
    """Versions of the engine and of the tools that the run uses."""
    wall_sec: float | None
    cpu_sec: float | None
    decision: dict[str, Any]
    """The scheduling decision, with the `propensity` of the choice."""
    parent_id: str | None
    """The composite that the job belongs to."""
    review: Review | None
    """The reviewers' verdict on its work."""
    edited_lines: int | None
    """Lines that people changed before it was shipped; null if unknown."""


class RunsView(ResponseView, frozen=True, kw_only=True):
    """Every attempt at a job, oldest first."""

    runs: tuple[RunView, ...]
