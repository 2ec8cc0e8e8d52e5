"""A run: one attempt at a job, its usage and its result."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job.features import language_of
from gigafactory.domain.job.job import Job, Result, Step

USAGE_MAX = 10**15
"""The largest accepted count or nano-dollar amount of one run."""
TOOLS_MAX = 50
"""Tools counted by name per run; the rest are counted as OTHER_TOOLS."""
TOOL_CHARS_MAX = 80
OTHER_TOOLS = "other"

_TOOL = re.compile(rf"[\w.:/-]{{1,{TOOL_CHARS_MAX}}}")


class Usage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Cumulative usage of a run; None where the engine does not report it."""

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
    tools: dict[str, int] = {}
    """Calls by tool name; some engines report only the total."""

    @property
    def tokens(self) -> int:
        """All input and output tokens; reasoning tokens are part of the output."""
        return self.tokens_in + self.tokens_cached + self.tokens_cache_write + self.tokens_out

    @property
    def nonzero(self) -> bool:
        """Whether any count is above zero."""
        return any(getattr(self, name) for name in _COUNTS)

    def check(self) -> None:
        """Refuse implausible values.

        Raises Invalid.
        """
        json_names = {field.name: field.encode_name for field in msgspec.structs.fields(Usage)}
        faults = [
            Fault(f"usage.{json_names[name]}", f"is {value}; expected 0 to {USAGE_MAX}")
            for name in _COUNTS
            if (value := getattr(self, name)) is not None and not 0 <= value <= USAGE_MAX
        ]
        if len(self.tools) > TOOLS_MAX + 1:
            fault = f"has {len(self.tools)} names; expected at most {TOOLS_MAX + 1}"
            faults.append(Fault("usage.tools", fault))
        for name, calls in self.tools.items():
            if not _TOOL.fullmatch(name) or not 0 <= calls <= USAGE_MAX:
                fault = f"is {calls}; expected a short name, and 0 to {USAGE_MAX}"
                faults.append(Fault(f"usage.tools.{name[:TOOL_CHARS_MAX]}", fault))
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


def count_tool_call(tools: Mapping[str, int], name: str) -> dict[str, int]:
    """Return the counts with one more call; invalid or excess names count as OTHER_TOOLS."""
    plain = _TOOL.fullmatch(name) is not None
    has_counter = name in tools or len(tools) - (OTHER_TOOLS in tools) < TOOLS_MAX
    counted = name if plain and has_counter else OTHER_TOOLS
    return {**tools, counted: tools.get(counted, 0) + 1}


class Review(StrEnum):
    """The review decision on the work of a run."""

    APPROVED = "approved"
    REJECTED = "rejected"
    CHANGES_REQUESTED = "changes_requested"


class Run(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One attempt at a job, from the lease grant to its end."""

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
    attempt: int = 1
    repo: str | None = None
    profile: str | None = None
    """The resolved profile with its version: `name@3`."""
    language: str | None = None
    """Derived from the tools that the job requires."""
    words: int | None = None
    """The number of words of the job's instructions."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    result: Result | None = None
    reason: str | None = None
    usage: Usage | None = None
    verify: dict[str, Any] | None = None
    diff: dict[str, Any] | None = None
    versions: dict[str, str] = {}
    """Versions of the engine and of the required tools."""
    wall_sec: float | None = None
    cpu_sec: float | None = None
    """CPU time of all processes of the run, if the system reports it."""
    decision: dict[str, Any] = {}
    """Why this factory was chosen, with the `propensity` of the choice."""
    parent_id: str | None = None
    """The composite of its job."""
    review: Review | None = None
    """The review decision on its work."""
    edited_lines: int | None = None
    """Lines that people added or removed before it was shipped; None if unknown."""
    spent_nano_usd: int = 0
    """The highest cost reported so far."""
    unbudgeted_nano_usd: int = 0
    """The part of it that was reported while the product had no budget."""
    spent_tokens: int = 0
    """The highest number of tokens reported so far."""
    ceilings: tuple[str, ...] = ()
    """The composites above its job that have a budget."""
    reserved_nano_usd: int = 0
    """The remaining reservation in the product's budget."""
    rev: int = 1

    @property
    def key(self) -> str:
        """The id, which begins with the job's id."""
        return self.id


def newest_work(runs: Iterable[Run]) -> Run | None:
    """Return the newest run that was not a ship step, or None: it made the work under review."""
    work = [run for run in runs if run.step is Step.RUN]
    return max(work, key=lambda run: run.number, default=None)


def add_edited_lines(run: Run, lines: int) -> Run:
    """Return the run with `lines` added to its count of lines edited by people."""
    return replace(run, edited_lines=(run.edited_lines or 0) + lines, rev=run.rev + 1)


def start_run(
    job: Job, decision: dict[str, Any], *, reserved: int = 0, ceilings: tuple[str, ...] = ()
) -> Run:
    """Return the run of a newly granted lease."""
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
        attempt=job.attempts + 1,
        repo=job.ask.repo,
        profile=job.profile,
        language=language_of(job.ask.needs),
        words=job.words,
        decision=decision,
        parent_id=job.parent_id,
        ceilings=ceilings,
        reserved_nano_usd=reserved,
    )


def end_run(run: Run, result: Result, reason: str | None, *, now: datetime) -> Run:
    """Return the ended run; if it has ended before, only its revision changes."""
    if run.ended_at is not None:
        return replace(run, rev=run.rev + 1)
    return replace(run, ended_at=now, result=result, reason=reason, rev=run.rev + 1)
