"""An active run: the state that its phases share, and how they start programs."""

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gigafactory.domain.job.job import Checkpoint, Result
from gigafactory.domain.job.run import Usage
from gigafactory.domain.job.token_price import Prices
from gigafactory.domain.job.worker_report import Report
from gigafactory.engines.protocol.engine import Engine
from gigafactory.factory.core.allowed_folders import AllowedFolders
from gigafactory.factory.core.assignment import Assignment, RunFindings, RunOutcome
from gigafactory.factory.core.data_dir import DataDir, make_private_folder, temp_folder
from gigafactory.factory.core.stop import StopReason, StopSignal
from gigafactory.factory.forges.registry import Forges
from gigafactory.factory.git.diff import Diff
from gigafactory.factory.git.mirror import Mirrors
from gigafactory.factory.git.repos import Repos
from gigafactory.factory.git.workspace import RepoWorkspace, Workspace
from gigafactory.factory.machine.engines import DetectedEngine
from gigafactory.factory.machine.inventory import Inventory
from gigafactory.factory.process.cgroups import ControlGroups
from gigafactory.factory.process.orphans import new_mark
from gigafactory.factory.process.process import (
    OutputListener,
    ProcessLimits,
    ProcessResult,
    Program,
)
from gigafactory.factory.process.process import run as run_program
from gigafactory.factory.reporting import fleet_access
from gigafactory.factory.reporting.fleet_access import FleetAccess
from gigafactory.factory.reporting.log_sender import RunLog
from gigafactory.factory.reporting.reporter import Reporter
from gigafactory.factory.run.acceptable_report import make_acceptable
from gigafactory.factory.run.environment import build_environment, filter_allowed
from gigafactory.factory.run.log_lines import format_own_line, format_program_output
from gigafactory.factory.run.ports import PortBlocks
from gigafactory.factory.run.redacted_log import RedactedLog
from gigafactory.factory.run.run_registry import RegisteredRun
from gigafactory.factory.sandbox.sandbox import Sandbox
from gigafactory.factory.secrets.redaction import Redactor

GRACE_S = 10.0
TAIL_CHARS_MAX = 40_000
TIMEOUT_S = 2 * 60 * 60.0
"""Time limit of a run without `timeout` and `budget.wall`."""


class CommandTimeouts(NamedTuple):
    """Time limits of a job's own commands on this machine."""

    setup_s: float = 30 * 60.0
    verify_s: float = 60 * 60.0


@dataclass(frozen=True, kw_only=True)
class Equipment:
    """Shared resources of all runs on this machine."""

    data_dir: DataDir
    engines: Mapping[str, Engine]
    inventory: Inventory
    sandbox: Sandbox
    environ: Mapping[str, str]
    """The factory's own environment; runs inherit only listed variables."""
    allowed_env: tuple[str, ...] = ()
    """Names and patterns of variables that a manifest may request."""
    secrets: tuple[str, ...] = ()
    factory_id: str
    prices: Prices = field(default_factory=dict)
    """Token prices for engines that do not report their cost."""
    folders: AllowedFolders = field(default_factory=AllowedFolders)
    """Folders in which jobs may work in place (`cwd`)."""
    timeouts: CommandTimeouts = field(default_factory=CommandTimeouts)
    checkpoint_every_s: float = 180.0
    mirrors: Mirrors
    repos: Repos
    forges: Forges = field(default_factory=Forges)
    ports: PortBlocks = field(default_factory=PortBlocks)
    cgroups: ControlGroups | None = None
    """The control groups of runs; None on a machine without usable cgroups."""

    def with_secret(self, secret: str) -> "Equipment":
        """Return a copy with one more secret to redact."""
        return replace(self, secrets=(*self.secrets, secret))

    @property
    def detected_engines(self) -> Mapping[str, DetectedEngine]:
        """The engines of this machine, as of the newest detection."""
        return self.inventory.detected.engines

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The capability tokens of this machine, including tool versions."""
        return self.inventory.detected.capabilities


class ShellResult(NamedTuple):
    """The result of a shell command."""

    exit_code: int
    reason: str
    wall_s: float
    tail: str
    """The end of its output."""


class ActiveRun:
    """One active attempt at a job."""

    def __init__(
        self,
        assignment: Assignment,
        equipment: Equipment,
        reporter: Reporter,
        stop: StopSignal,
        fleet_access: FleetAccess | None = None,
    ) -> None:
        self.assignment = assignment
        self.fleet_access = fleet_access
        """Access of the run's agent to the fleet API."""
        self.equipment = (
            equipment if fleet_access is None else equipment.with_secret(fleet_access.token)
        )
        self.reporter = reporter
        self.stop = stop
        self.findings = RunFindings()
        self.session: str | None = None
        self.session_usage: Usage | None = None
        self.can_follow_up = False
        """Whether the engine can correct what a check has found."""
        self.workspace: Workspace | None = None
        self.is_saved = True
        """Whether all of the work is saved where another machine can find it."""
        self.mark = new_mark()
        self.cpu_s = 0.0
        self.home = equipment.data_dir.home(assignment.job_id)
        self.tmp = temp_folder(self.mark)
        """Folder for temporary files, removed at the end of the run."""
        self._port_base = equipment.ports.reserve()
        self.log = RunLog(equipment.data_dir.log_file(assignment.run_id), LOG_BYTES_MAX)
        self._redacted_log = RedactedLog(self.log, Redactor(self.equipment.secrets))
        self._started = time.monotonic()
        self._deadline = self._started + self._time_limit_s()

    def _time_limit_s(self) -> float:
        timeout, wall_s = self.assignment.manifest.timeout, self._wall_budget_left_s()
        limits = [] if timeout is None else [timeout.total_seconds()]
        return min([*limits, *([] if wall_s is None else [wall_s])], default=TIMEOUT_S)

    def _wall_budget_left_s(self) -> float | None:
        """Time that earlier runs left of `budget.wall`."""
        budget = self.assignment.manifest.budget
        if budget is None or budget.wall is None:
            return None
        return max(0.0, budget.wall.total_seconds() - self.assignment.worked_s)

    @property
    def worktree(self) -> Path:
        """The folder in which the job works."""
        assert self.workspace is not None, "the checkout phase runs first"
        return self.workspace.path

    @property
    def remaining_s(self) -> float:
        """Seconds left until the time limit."""
        return max(0.0, self._deadline - time.monotonic())

    @property
    def wall_s(self) -> float:
        """Seconds since the run started."""
        return time.monotonic() - self._started

    @property
    def now(self) -> datetime:
        """The local time: some engines report the reset of a limit as a local time of day."""
        return datetime.now().astimezone()

    @property
    def registry_entry(self) -> RegisteredRun:
        """The record that crash recovery needs if this process dies."""
        job = self.assignment
        # In place (`cwd`) there is nothing to recover: the folder belongs to a person.
        repo = None if job.manifest.cwd else job.manifest.repo
        return RegisteredRun(
            run_id=job.run_id,
            job_id=job.job_id,
            epoch=job.epoch,
            mark=self.mark,
            repo=repo,
            tmp=str(self.tmp),
        )

    def log_line(self, line: str) -> None:
        """Write a line of the factory itself into the log."""
        self._redacted_log.add(format_own_line(line).encode(errors="replace"))

    def log_output(self, text: str) -> None:
        """Write a line of a program, or several, into the log; never as a line of the factory."""
        self._redacted_log.add(format_program_output(text).encode(errors="replace"))

    def close(self) -> None:
        """Release the ports, and write the rest of the log."""
        self.equipment.ports.release(self._port_base)
        self._redacted_log.close()

    async def save_checkpoint(self) -> None:
        """Save the work in progress, and report a new checkpoint.

        Raises GitFailed.
        """
        if self.workspace is None:
            return
        try:
            commit = await self.workspace.save()
        finally:
            self.is_saved = not self.workspace.unsaved
        if commit is not None and isinstance(self.workspace, RepoWorkspace):
            before = self.findings.checkpoint
            self.record_checkpoint(commit, self.workspace.branch)
            if before != self.findings.checkpoint:
                self.reporter.report(self.report(checkpoint=self.findings.checkpoint))

    def report(self, **fields: Any) -> Report:  # noqa: ANN401 - the fields of Report
        """Return a report on this run, under its lease, that the coordinator will accept."""
        job = self.assignment
        return make_acceptable(Report(job_id=job.job_id, epoch=job.epoch, **fields))

    def record_checkpoint(self, commit: str, branch: str) -> None:
        """Record where the work is saved."""
        self.findings.checkpoint = Checkpoint(
            branch=branch,
            commit=commit,
            engine=self.assignment.engine,
            session_id=self.session,
            factory_id=self.equipment.factory_id,
        )

    def stop_fenced(self) -> None:
        """Stop the run because its lease was taken away."""
        self.stop.request(StopReason.FENCED, "the lease was taken away")

    async def changes(self) -> Diff | None:
        """Return the changes since the base; None without a repo."""
        return await self.workspace.changes() if self.workspace is not None else None

    def environment(self, *more: str) -> dict[str, str]:
        """Return the environment of a program; `more` are names of credential variables."""
        return build_environment(
            self.equipment.environ,
            home=self.home,
            job_id=self.assignment.job_id,
            run_id=self.assignment.run_id,
            worktree=self.worktree,
            names=filter_allowed(self.assignment.manifest.env, self.equipment.allowed_env),
            credentials=more,
            tmp=self.tmp,
            port_base=self._port_base,
            git_ceiling=self.equipment.data_dir.worktrees,
        )

    async def run_shell(self, command: str, *, timeout_s: float) -> ShellResult:
        """Run a command of the job in its worktree."""
        listener = OutputTail(self)
        program = Program(
            argv=("/bin/sh", "-c", command),
            cwd=self.worktree,
            env=self.environment(),
            mark=self.mark,
        )
        ended = await self.run_program(program, listener, timeout_s=timeout_s)
        return ShellResult(ended.exit_code, ended.reason, ended.wall_s, listener.text)

    async def run_program(
        self,
        program: Program,
        listener: OutputListener,
        *,
        timeout_s: float | None = None,
        stall_s: float | None = None,
        ladder: Sequence[str] = (),
        hidden: Sequence[Path] = (),
    ) -> ProcessResult:
        """Run a program in the sandbox to its end; paths in `hidden` appear empty to it."""
        wall_s = self.remaining_s if timeout_s is None else min(self.remaining_s, timeout_s)
        limits = ProcessLimits(wall_s=wall_s, stall_s=stall_s, grace_s=GRACE_S)
        assert self.workspace is not None, "the checkout phase runs first"
        make_private_folder(self.tmp)
        async with self.equipment.sandbox.confine(
            program,
            writable=(self.home, self.tmp, *self.workspace.writable),
            readable=self.workspace.readable,
            needed=fleet_access.readable_paths() if self.fleet_access is not None else (),
            emptied=hidden,
            policy=self.assignment.manifest.sandbox,
            report=self.log_line,
        ) as confined:
            held = msgspec.structs.replace(confined, cgroup=self._cgroup())
            ended = await run_program(held, limits, listener, self.stop.event, ladder)
        self.cpu_s += ended.cpu_s
        if ended.out_of_memory:
            self.log_line(
                "a process was killed: it used more memory than factory.run-memory allows"
            )
        return ended

    def _cgroup(self) -> Path | None:
        groups = self.equipment.cgroups
        return groups.create(self.mark) if groups is not None else None

    def outcome_if_stopped(self, ended: ProcessResult | ShellResult) -> RunOutcome | None:
        """Return the outcome if a program was stopped instead of ending by itself; else None."""
        match ended.reason:
            case "timeout":
                return self.timeout_outcome()
            case "stalled":
                return RunOutcome(result=Result.TIMEOUT, reason="no output for too long (`stall`)")
            case "stopped":
                return self.stopped_outcome()
            case _:
                return None

    def timeout_outcome(self) -> RunOutcome:
        """Return the outcome of a run that exceeded its time limit."""
        manifest, wall_s = self.assignment.manifest, self._wall_budget_left_s()
        if wall_s is not None and wall_s <= self._time_limit_s():
            wall = manifest.budget.wall if manifest.budget else None
            return RunOutcome(
                result=Result.BUDGET_EXCEEDED,
                reason=f"the runs of this job took longer than budget.wall, {wall}",
            )
        allowed = manifest.timeout or timedelta(seconds=TIMEOUT_S)
        return RunOutcome(
            result=Result.TIMEOUT, reason=f"the run took longer than `timeout`, {allowed}"
        )

    def stopped_outcome(self) -> RunOutcome:
        """Return the outcome of a run that was stopped from outside."""
        results = {
            StopReason.CANCELLED: Result.RELEASED,
            StopReason.PREEMPTED: Result.PREEMPTED,
            StopReason.DRAINED: Result.RELEASED,
            StopReason.FENCED: Result.LOST,
            StopReason.BUDGET: Result.BUDGET_EXCEEDED,
            StopReason.LIMITED: Result.RATE_LIMITED,
        }
        why = self.stop.reason or StopReason.DRAINED
        return RunOutcome(result=results[why], reason=self.stop.detail or str(why))


LOG_BYTES_MAX = 200 * 1024 * 1024


class OutputTail:
    """Passes program output on to the log and keeps its end."""

    def __init__(self, run: ActiveRun) -> None:
        self._run = run
        self._lines: deque[str] = deque()
        self._chars = 0

    def on_line(self, text: str, *, stderr: bool) -> Iterable[bytes]:
        """Handle one line."""
        del stderr
        self._run.log_output(text)
        self._lines.append(text)
        self._chars += len(text)
        while self._chars > TAIL_CHARS_MAX and len(self._lines) > 1:
            self._chars -= len(self._lines.popleft())
        return ()

    @property
    def text(self) -> str:
        """The end of the output."""
        return "\n".join(self._lines)[-TAIL_CHARS_MAX:]
