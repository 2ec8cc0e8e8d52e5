"""Records of runs and what they used."""

from typing import Any

from gigafactory.domain.job.job import Result, Step
from gigafactory.domain.job.run import Review
from gigafactory.wire.fields import Money, ResponseView, Timestamp


class UsageView(ResponseView, frozen=True, kw_only=True):
    """What a run has used, cumulative."""

    engine: str | None
    model: str | None
    tokens_in: int
    tokens_cached: int
    tokens_cache_write: int
    tokens_out: int
    tokens_reasoning: int
    cost_usd: Money | None
    estimated: bool
    turns: int
    tool_calls: int
    tools: dict[str, int]


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
    """Of the engine, and of the tools that the job asked for or cannot do without."""
    wall_sec: float | None
    cpu_sec: float | None
    decision: dict[str, Any]
    """Why it went there, with the `propensity` of that choice."""
    parent_id: str | None
    """The composite that its job is part of."""
    review: Review | None
    edited_lines: int | None
    """Lines that people changed before it was shipped; null where nobody has looked."""
    """What people made of its work."""


class RunsView(ResponseView, frozen=True, kw_only=True):
    """Every attempt at a job, oldest first."""

    runs: tuple[RunView, ...]
