"""One job as this factory has it: what to do, under which lease."""

import msgspec
from msgspec.structs import replace

from gigafactory.domain.job.job import Checkpoint, Result, Step
from gigafactory.domain.job.run import Usage
from gigafactory.domain.manifest.job_file import parse_snapshot
from gigafactory.domain.manifest.manifest import Manifest
from gigafactory.wire.workers import GrantView


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A leased job, from the coordinator or from a folder alike."""

    job_id: str
    name: str
    title: str
    run_id: str
    epoch: int
    step: Step
    engine: str | None
    manifest: Manifest
    """Resolved: what is not given here has no value at all."""
    body: str
    follow_ups: tuple[str, ...] = ()
    checkpoint: Checkpoint | None = None
    attempt: int = 1
    worked_s: float = 0.0
    """What earlier runs have taken of the time that `budget.wall` gives."""
    protected_globs: tuple[str, ...] = ()
    """Globs of what people must look at when it was changed."""
    flags: tuple[str, ...] = ()
    """Such as that people were asked to look, because of what was changed."""
    parent_id: str | None = None
    """The composite that it is part of."""
    result: Result | None = None
    """Of its newest run; a scope violation that is shipped was let pass by a reviewer."""

    @classmethod
    def from_grant(cls, grant: GrantView) -> "Assignment":
        """What a coordinator granted.

        Raises Invalid for a manifest that this program does not understand.
        """
        job = grant.job
        return cls(
            job_id=job.id,
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
    """How a run came out, in exactly one class."""

    result: Result
    reason: str = ""
    retry_after_s: float | None = None
    protected: bool = False
    """Whether it changed what people must look at."""

    @property
    def succeeded(self) -> bool:
        """Whether the work is done."""
        return self.result is Result.OK


class RunFindings(msgspec.Struct, kw_only=True):
    """What a run has found out so far; it is reported with its end, whatever that is."""

    usage: Usage | None = None
    """With what the engine has told of its present turn."""
    finished_turns_usage: Usage | None = None
    """Of the turns that have ended."""
    tools: dict[str, int] = {}
    """How often each tool was called, by name."""
    verify: dict[str, object] | None = None
    diff: dict[str, object] | None = None
    checkpoint: Checkpoint | None = None
    edited_lines: int | None = None
    """Of a ship: lines that people changed after the work was handed in."""

    @property
    def total_usage(self) -> Usage | None:
        """All that the run has used, with the tools that were called."""
        if self.usage is None:
            return None
        calls = self.usage.tool_calls + sum(self.tools.values())
        return replace(self.usage, tool_calls=calls, tools=self.tools)
