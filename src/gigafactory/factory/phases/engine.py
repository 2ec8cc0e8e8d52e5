"""Engine phase: starts the engine for a turn, follows its output, and judges the result."""

import asyncio
import os
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gigafactory.domain.job.job import Result
from gigafactory.domain.job.run import Usage, count_tool_call
from gigafactory.domain.job.token_price import estimate_cost
from gigafactory.domain.manifest.engine_ref import ACP_PREFIX, COMMAND
from gigafactory.domain.manifest.engine_ref import base_engine as program_of
from gigafactory.domain.manifest.units import format_usd
from gigafactory.engines.catalogue import find_engine
from gigafactory.engines.protocol.engine import (
    Engine,
    EngineEvent,
    EngineReader,
    EngineVerdict,
    Failure,
    FailureKind,
    Retrying,
    SendInput,
    SessionStarted,
    Start,
    Text,
    ToolCall,
    UsageUpdate,
    Work,
)
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.core.stop import StopReason
from gigafactory.factory.process.process import CannotStart, Program
from gigafactory.factory.reporting import fleet_access
from gigafactory.factory.run import engine_home, prompts
from gigafactory.factory.run.active_run import ActiveRun
from gigafactory.factory.run.engine_home import find_repo_settings
from gigafactory.factory.run.failure import outcome_of_engine_failure
from gigafactory.factory.run.live_usage import LiveUsageReporter, add_usage
from gigafactory.system.atomic_file import write_atomically
from gigafactory.system.loops import run_in_background


async def run_engine(run: ActiveRun) -> RunOutcome | None:
    """Run the engine on the job; resume its session if this machine has it."""
    checkpoint, follow_ups = run.assignment.checkpoint, run.assignment.follow_ups
    resumed = checkpoint is not None
    is_same_factory = checkpoint is not None and checkpoint.factory_id == run.equipment.factory_id
    if checkpoint is not None and is_same_factory and checkpoint.engine == run.assignment.engine:
        run.session = checkpoint.session_id
        run.session_usage = _stored_usage(_session_file(run), run.session)
    if run.session is not None:
        ended = await run_turn(run, prompts.resume_prompt(follow_ups))
        if ended is not UNKNOWN_SESSION:
            return ended
        run.session = None
    if run.assignment.engine == COMMAND and run.assignment.manifest.command is None:
        # The body is a script: run it unchanged.
        return await run_turn(run, run.assignment.body)
    guides = [name for name in prompts.GUIDES if (run.worktree / name).is_file()]
    prompt = prompts.first_prompt(run.assignment.body, follow_ups, resumed=resumed, guides=guides)
    return await run_turn(run, prompt)


UNKNOWN_SESSION = RunOutcome(result=Result.CRASH, reason="the engine does not have the session")


async def run_turn(run: ActiveRun, prompt: str) -> RunOutcome | None:
    """Start the engine once; return None if it reports success, else the outcome.

    Raises Forbidden for a repo that hides engine settings behind a link.
    """
    name = run.assignment.engine or ""
    detected = run.equipment.detected_engines.get(program_of(name))
    kind = _find_engine(run, name)
    if kind is None or detected is None or detected.problem is not None:
        why = (
            detected.problem
            if detected is not None and detected.problem
            else "it is not installed on this machine"
        )
        return RunOutcome(result=Result.ENGINE_UNAVAILABLE, reason=f"{name}: {why}")
    work = _work(run, prompt, detected.program)
    start = kind.start(work)
    engine_home.copy_prepared_files(run.home, run.equipment.data_dir.engine_home(program_of(name)))
    engine_home.write_files(run.home, start.files)
    live = LiveUsageReporter(run)
    monitor = EngineMonitor(run, kind.reader(work), live.notify)
    run.log_line(f"{name} started" + (f" (resumes session {run.session})" if run.session else ""))
    try:
        async with run_in_background(live.run()):
            ended = await run.run_program(
                _program(run, start, kind.credentials),
                monitor,
                stall_s=_stall_s(run),
                ladder=kind.stop_signals,
                hidden=find_repo_settings(run.worktree, kind.repo_settings),
            )
    except CannotStart as cannot:
        return RunOutcome(result=Result.ENGINE_UNAVAILABLE, reason=f"{name}: {cannot}")
    verdict = await asyncio.to_thread(_judge, run, monitor, start, ended.exit_code)
    _record_verdict(run, verdict)
    if run.stop.reason is StopReason.LIMITED and monitor.abandoned is not None:
        return outcome_of_engine_failure(name, monitor.abandoned, now=run.now)
    return run.outcome_if_stopped(ended) or _outcome_of_verdict(run, name, verdict)


def _judge(run: ActiveRun, monitor: "EngineMonitor", start: Start, exit_code: int) -> EngineVerdict:
    """Return the engine's verdict; usage from files that the agent could edit is an estimate."""
    files = engine_home.read_side_files(run.home, start.side_files)
    verdict = monitor.reader.end(exit_code, files)
    usage, counted = monitor.told_usage, verdict.usage
    if not files or (usage.tokens, usage.cost_nano_usd) == (counted.tokens, counted.cost_nano_usd):
        return verdict
    return replace(verdict, usage=replace(counted, estimated=True))


def _outcome_of_verdict(run: ActiveRun, name: str, verdict: EngineVerdict) -> RunOutcome | None:
    failure = verdict.failure
    if failure is None:
        # A script would only do the same again.
        run.can_follow_up = name != COMMAND
        run.log_line(f"{name} is done")
        return None
    if failure.kind is FailureKind.UNKNOWN_SESSION:
        return UNKNOWN_SESSION
    run.log_line(f"{name} failed ({failure.kind}): {failure.message}")
    return outcome_of_engine_failure(name, failure, now=run.now)


def _find_engine(run: ActiveRun, name: str) -> Engine | None:
    if name.startswith(ACP_PREFIX):
        return find_engine(name)
    return run.equipment.engines.get(name)


def _work(run: ActiveRun, prompt: str, program: str) -> Work:
    manifest = run.assignment.manifest
    return Work(
        program=program,
        prompt=prompt,
        new_session=str(uuid.uuid4()),
        worktree=str(run.worktree),
        home=str(run.home),
        now=run.now,
        persona=manifest.persona,
        model=manifest.model,
        session=run.session,
        session_usage=run.session_usage,
        yolo=bool(manifest.yolo),
        usd_nanos_max=manifest.budget.usd_nanos if manifest.budget else None,
        command=manifest.command,
        fleet_tools=fleet_access.find_aq() if run.fleet_access is not None else None,
        runs_as_root=hasattr(os, "geteuid") and os.geteuid() == 0,
    )


def _program(run: ActiveRun, start: Start, credentials: Iterable[str]) -> Program:
    return Program(
        argv=start.argv,
        cwd=run.worktree,
        env={
            **run.environment(*credentials),
            **(run.fleet_access.environment if run.fleet_access is not None else {}),
            **start.env,
        },
        stdin=start.stdin,
        stdin_open=start.stdin_open,
        mark=run.mark,
    )


def _stall_s(run: ActiveRun) -> float | None:
    stall = run.assignment.manifest.stall
    return stall.total_seconds() if stall else None


class EngineMonitor:
    """Follows an engine: logs its output, and watches its usage."""

    def __init__(self, run: ActiveRun, reader: EngineReader, used: Callable[[], None]) -> None:
        """Call `used` when the engine has used more."""
        self._run = run
        self._used = used
        self.reader = reader
        self.abandoned: Failure | None = None
        """The limit that the engine would have to wait for too long."""
        self.told_usage = Usage()
        """What the engine itself has reported last."""

    def on_line(self, text: str, *, stderr: bool) -> Iterable[bytes]:
        """Return the data to write to the engine's stdin in reaction to a line."""
        events = list(self.reader.read(text, stderr=stderr))
        if not events and not text.lstrip().startswith("{"):
            self._run.log_output(text)
        return [data for event in events for data in self._handle(event)]

    def _handle(self, event: EngineEvent) -> Iterable[bytes]:
        """Return the data to write to the engine's stdin; empty data closes it."""
        run = self._run
        match event:
            case Text(text):
                run.log_output(text)
            case ToolCall(name):
                run.log_output(f"[{name}]")
                run.findings.tools = count_tool_call(run.findings.tools, name)
            case SessionStarted(session_id):
                run.session = session_id
            case UsageUpdate(usage):
                self.told_usage = usage
                run.findings.usage = _total_usage(run, usage)
                _enforce_budget(run)
                self._used()
            case Retrying(failure):
                self._retrying(failure)
            case SendInput(data, closes_stdin=last):
                return (data, b"") if last else (data,)
        return ()

    def _retrying(self, failure: Failure) -> None:
        self._run.log_line(f"the engine retries ({failure.kind}): {failure.message}")
        if failure.kind is FailureKind.ALLOWANCE:
            self.abandoned = failure
            self._run.stop.request(StopReason.LIMITED, "the engine's allowance is used up")


def _total_usage(run: ActiveRun, usage: Usage) -> Usage:
    """Usage of this turn, priced if the engine did not, plus that of earlier turns."""
    own = replace(usage, engine=run.assignment.engine)
    return add_usage(run.findings.finished_turns_usage, estimate_cost(own, run.equipment.prices))


def _enforce_budget(run: ActiveRun) -> None:
    budget, usage = run.assignment.manifest.budget, run.findings.usage
    if budget is None or usage is None:
        return
    if budget.tokens is not None and usage.tokens > budget.tokens:
        run.stop.request(StopReason.BUDGET, f"{usage.tokens} of {budget.tokens} tokens are used")
    spent = usage.cost_nano_usd
    if budget.usd_nanos is not None and spent is not None and spent > budget.usd_nanos:
        guess = " by estimate" if usage.estimated else ""
        amounts = f"{format_usd(spent)} USD of {format_usd(budget.usd_nanos)}"
        run.stop.request(StopReason.BUDGET, f"{amounts} are spent{guess}")


def _record_verdict(run: ActiveRun, verdict: EngineVerdict) -> None:
    run.findings.usage = run.findings.finished_turns_usage = _total_usage(run, verdict.usage)
    # Some engines report their usage only at the end.
    _enforce_budget(run)
    run.session = verdict.session or run.session
    run.session_usage = verdict.session_usage
    if run.session is not None and verdict.session_usage is not None:
        stored = StoredSession(run.session, verdict.session_usage)
        write_atomically(_session_file(run), msgspec.json.encode(stored), mode=0o600)


class StoredSession(msgspec.Struct, frozen=True):
    """Usage of a session at its last turn: some engines count from the start of the session."""

    session: str
    usage: Usage


def _session_file(run: ActiveRun) -> Path:
    # Not in the home: the agent could lower its own cost there, or put a pipe in its place.
    return run.equipment.data_dir.session_file(run.assignment.job_id)


def _stored_usage(file: Path, session: str | None) -> Usage | None:
    try:
        stored = msgspec.json.decode(file.read_bytes(), type=StoredSession)
    except (OSError, msgspec.DecodeError):
        return None
    return stored.usage if stored.session == session else None
