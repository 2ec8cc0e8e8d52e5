"""A run: one attempt at a job, what it used and how it came out."""

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job import Job, Result, Step

USAGE_MAX = 10**15
"""No count or nano-dollar amount of one run is larger; whatever claims to be is refused."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a run has used so far, cumulative; None where the engine does not say."""

    engine: str | None = None
    model: str | None = None
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_cache_write: int = 0
    tokens_out: int = 0
    tokens_reasoning: int = 0
    cost_nano_usd: int | None = None
    estimated: bool = False
    turns: int = 0
    tool_calls: int = 0

    def check(self) -> None:
        """Refuse what no run can have used.

        Raises Invalid.
        """
        shown = {field.name: field.encode_name for field in msgspec.structs.fields(Usage)}
        faults = [
            Fault(f"usage.{shown[name]}", f"is {value}; expected 0 to {USAGE_MAX}")
            for name in _COUNTS
            if (value := getattr(self, name)) is not None and not 0 <= value <= USAGE_MAX
        ]
        if faults:
            raise Invalid("the usage report", faults)


_COUNTS = (
    "tokens_in",
    "tokens_cached",
    "tokens_cache_write",
    "tokens_out",
    "tokens_reasoning",
    "cost_nano_usd",
    "turns",
    "tool_calls",
)


class Run(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One attempt at a job, from its grant to its end."""

    kind: ClassVar[str] = "run"
    expires_at: ClassVar[None] = None

    id: str
    job_id: str
    product_id: str
    factory_id: str
    epoch: int
    number: int
    step: Step
    engine: str | None
    granted_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    result: Result | None = None
    reason: str | None = None
    usage: Usage | None = None
    verify: dict[str, Any] | None = None
    diff: dict[str, Any] | None = None
    decision: dict[str, Any] = {}
    rev: int = 1

    @property
    def key(self) -> str:
        """Runs are found by their id, which begins with the job's."""
        return self.id


def begin(job: Job, decision: dict[str, Any]) -> Run:
    """The run that a freshly granted lease stands for."""
    lease = job.lease
    assert lease is not None, "a run begins with a lease"
    return Run(
        id=lease.run_id,
        job_id=job.id,
        product_id=job.product_id,
        factory_id=lease.factory_id,
        epoch=lease.epoch,
        number=job.runs,
        step=lease.step,
        engine=lease.engine,
        granted_at=lease.granted_at,
        decision=decision,
    )


def end(run: Run, result: Result, reason: str | None, *, now: datetime) -> Run:
    """The run as it ended; a run that has ended already stays as it is, but for its revision."""
    if run.ended_at is not None:
        return msgspec.structs.replace(run, rev=run.rev + 1)
    return msgspec.structs.replace(run, ended_at=now, result=result, reason=reason, rev=run.rev + 1)
