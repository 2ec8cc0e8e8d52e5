"""A leased job on this factory, and the outcome and findings of its run."""

import msgspec
from msgspec.structs import replace

from gigafactory.domain.job.job import Checkpoint, Result, Step
from gigafactory.domain.job.run import Usage
from gigafactory.domain.manifest.job_file import parse_snapshot
from gigafactory.domain.manifest.manifest import Manifest
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT
from gigafactory.wire.workers import GrantView


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A leased job, granted by a coordinator or taken from a folder queue."""

    job_id: str
    product: str = DEFAULT_PRODUCT
    name: str
    title: str
    run_id: str
    epoch: int
    step: Step
    engine: str | None
    manifest: Manifest
    """Resolved: profiles and defaults are applied; a missing field has no value."""
    body: str
    follow_ups: tuple[str, ...] = ()
    checkpoint: Checkpoint | None = None
    attempt: int = 1
    worked_s: float = 0.0
    """Wall time that earlier runs of the job used of `budget.wall`."""
    protected_globs: tuple[str, ...] = ()
    """Globs of paths whose change needs a human review."""
    flags: tuple[str, ...] = ()
    """Flags of the job, e.g. that a review of protected paths was requested."""
    parent_id: str | None = None
    """The composite that the job belongs to."""
    result: Result | None = None
    """Result of the newest run; a scope violation being shipped was approved by a reviewer."""

    @classmethod
    def from_grant(cls, grant: GrantView) -> "Assignment":
        """Build an assignment from a grant of the coordinator.

        Raises Invalid for a manifest that this version does not understand.
        """
        job = grant.job
        return cls(
            job_id=job.id,
            product=job.product_id,
            name=job.name,
            title=job.title,
            run_id=grant.run_id,
            epoch=grant.lease_epoch,
            step=grant.step,
            engine=grant.engine,
            manifest=parse_snapshot(msgspec.json.decode(grant.manifest)),
            body=grant.body_md,
            follow_ups=grant.follow_ups,
            checkpoint=job.checkpoint,
            attempt=job.attempts + 1,
            worked_s=grant.worked_sec,
            protected_globs=grant.protected_paths,
            flags=job.flags,
            parent_id=job.parent_id,
            result=job.result,
        )


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a run: exactly one result class."""

    result: Result
    reason: str = ""
    retry_after_s: float | None = None
    protected: bool = False
    """Whether the run changed protected paths."""

    @property
    def succeeded(self) -> bool:
        """Whether the run succeeded."""
        return self.result is Result.OK


class RunFindings(msgspec.Struct, kw_only=True):
    """Results collected so far during a run; reported at its end, also after a failure."""

    usage: Usage | None = None
    """Includes the usage of the current engine turn."""
    finished_turns_usage: Usage | None = None
    """Usage of the engine turns that have ended."""
    tools: dict[str, int] = {}
    """Number of calls by tool name."""
    verify: dict[str, object] | None = None
    diff: dict[str, object] | None = None
    checkpoint: Checkpoint | None = None
    edited_lines: int | None = None
    """When shipping: lines that people changed after the work was delivered."""

    @property
    def total_usage(self) -> Usage | None:
        """Return the usage of the whole run, including its tool calls."""
        if self.usage is None:
            return None
        calls = self.usage.tool_calls + sum(self.tools.values())
        return replace(self.usage, tool_calls=calls, tools=self.tools)
