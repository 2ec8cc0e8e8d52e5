"""Records of runs and their usage.

Usage has two records: a report may leave out what the engine does not meter and is refused if it
has unknown fields, while a response always has all fields and may gain new ones.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job.job import Result, Step
from gigafactory.domain.job.run import TOOLS_MAX, Review, Usage
from gigafactory.domain.manifest.units import format_usd, metered_usd
from gigafactory.wire.fields import Count, Dollars, Money, RequestDoc, ResponseView, Timestamp, Word


class UsageView(ResponseView, frozen=True, kw_only=True):
    """Cumulative usage of a run."""

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

    @classmethod
    def from_domain(cls, usage: Usage) -> "UsageView":
        """Return the record of a response."""
        return cls(**_from_domain(usage))


class UsageDoc(RequestDoc, frozen=True, kw_only=True):
    """Cumulative usage of the run; `tokensIn` excludes cached tokens."""

    engine: Word | None = None
    model: Word | None = None
    tokens_in: Count = 0
    tokens_cached: Count = 0
    tokens_cache_write: Count = 0
    tokens_out: Count = 0
    tokens_reasoning: Count = 0
    cost_usd: Dollars | None = None
    estimated: bool = False
    turns: Count = 0
    tool_calls: Count = 0
    tools: Annotated[dict[str, Count], Meta(max_length=TOOLS_MAX + 1)] = msgspec.field(
        default_factory=dict
    )
    """Number of calls by tool name."""

    @classmethod
    def from_domain(cls, usage: Usage) -> "UsageDoc":
        """Return the record of a report."""
        return cls(**_from_domain(usage))

    def to_domain(self) -> Usage:
        """Return the domain record.

        Raises Invalid for an invalid cost.
        """
        members = msgspec.structs.asdict(self)
        return Usage(cost_nano_usd=_nanos(members.pop("cost_usd")), **members)


def _from_domain(usage: Usage) -> dict[str, Any]:
    """Return the fields of either record: those of the domain, with the cost in dollars."""
    members = msgspec.structs.asdict(usage)
    nanos = members.pop("cost_nano_usd")
    return {**members, "cost_usd": None if nanos is None else format_usd(nanos)}


def _nanos(cost: float | str | None) -> int | None:
    try:
        return None if cost is None else metered_usd(cost)
    except ValueError as expected:
        fault = Fault("usage.costUsd", f"found {cost!r}; expected {expected}")
        raise Invalid("the usage report", [fault]) from None


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
