"""The engine: started for one turn, followed line by line, judged by what it did and said."""

import os
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from gigafactory.domain.job.job import Result
from gigafactory.domain.job.run import Usage, with_call
from gigafactory.domain.job.token_price import estimated
from gigafactory.domain.manifest.engine_ref import ACP_PREFIX, COMMAND
from gigafactory.domain.manifest.engine_ref import program as program_of
from gigafactory.domain.manifest.units import format_usd
from gigafactory.engines.catalogue import engine_for
from gigafactory.engines.protocol.engine import (
    Engine,
    Failure,
    Reader,
    Retrying,
    RunEvent,
    Say,
    Session,
    Start,
    Text,
    ToolCall,
    Trouble,
    Used,
    Verdict,
    Work,
)
from gigafactory.factory.core.assignment import RunOutcome
from gigafactory.factory.core.stop import StopReason
from gigafactory.factory.process.process import CannotStart, Program
from gigafactory.factory.reporting import job_token as fleet_access
from gigafactory.factory.run import engine_home as homes
from gigafactory.factory.run import prompts
from gigafactory.factory.run.engine_home import found_in
from gigafactory.factory.run.failure import outcome_of
from gigafactory.factory.run.live_usage import LiveUsage, added
from gigafactory.factory.run.run import Run
from gigafactory.system.loops import meanwhile

SESSION_FILE = ".aq/session.json"
"""In the job's home: what is known of the engine's session."""


async def engine(run: Run) -> RunOutcome | None:
    """Have the engine do the job; a session that this machine still has goes on."""
    checkpoint, follow_ups = run.assignment.checkpoint, run.assignment.follow_ups
    resumed = checkpoint is not None
    here = checkpoint is not None and checkpoint.factory_id == run.equipment.factory_id
    if checkpoint is not None and here and checkpoint.engine == run.assignment.engine:
        run.session = checkpoint.session_id
        run.session_usage = _recalled(run.home, run.session)
    if run.session is not None:
        ended = await turn(run, prompts.again(follow_ups))
        if ended is not UNKNOWN_SESSION:
            return ended
        run.session = None
    if run.assignment.engine == COMMAND and run.assignment.manifest.command is None:
        # The body is a script: it is run as it is, or not at all.
        return await turn(run, run.assignment.body)
    guides = [name for name in prompts.GUIDES if (run.worktree / name).is_file()]
    told = prompts.first(run.assignment.body, follow_ups, resumed=resumed, guides=guides)
    return await turn(run, told)


UNKNOWN_SESSION = RunOutcome(result=Result.CRASH, reason="the engine does not know the session")


async def turn(run: Run, prompt: str) -> RunOutcome | None:
    """One start of the engine; None when it says that it is done.

    Raises Forbidden for a repo that hides what would give the engine orders.
    """
    name = run.assignment.engine or ""
    found = run.equipment.found.get(program_of(name))
    kind = _kind(run, name)
    if kind is None or found is None or found.problem is not None:
        why = found.problem if found is not None and found.problem else "it is not on this machine"
        return RunOutcome(result=Result.ENGINE_UNAVAILABLE, reason=f"{name}: {why}")
    work = _work(run, prompt, found.program)
    start = kind.start(work)
    homes.bring(run.home, run.equipment.data_dir.engine_home(program_of(name)))
    homes.put(run.home, start.files)
    live = LiveUsage(run)
    heard = Followed(run, kind.reader(work), live.changed)
    run.tell(f"{name} begins" + (f" (session {run.session} goes on)" if run.session else ""))
    try:
        async with meanwhile(live.run()):
            ended = await run.program(
                _program(run, start, kind.credentials),
                heard,
                stall_s=_stall_s(run),
                ladder=kind.stop_with,
                emptied=found_in(run.worktree, kind.repo_settings),
            )
    except CannotStart as cannot:
        return RunOutcome(result=Result.ENGINE_UNAVAILABLE, reason=f"{name}: {cannot}")
    verdict = heard.reader.end(ended.exit_code, homes.side_files(run.home, start.side_files))
    _note(run, verdict)
    if run.stop.reason is StopReason.LIMITED and heard.given_up is not None:
        return outcome_of(name, heard.given_up, now=run.now)
    return run.cut_short(ended) or _judged(run, name, verdict)


def _judged(run: Run, name: str, verdict: Verdict) -> RunOutcome | None:
    """How the run goes on after an engine has ended by itself."""
    failure = verdict.failure
    if failure is None:
        run.converses = verdict.session is not None
        run.tell(f"{name} is done")
        return None
    if failure.kind is Trouble.UNKNOWN_SESSION:
        return UNKNOWN_SESSION
    run.tell(f"{name} failed ({failure.kind}): {failure.message}")
    return outcome_of(name, failure, now=run.now)


def _kind(run: Run, name: str) -> Engine | None:
    """The engine of a name; one that is driven by a protocol is made for its command."""
    if name.startswith(ACP_PREFIX):
        return engine_for(name)
    return run.equipment.engines.get(name)


def _work(run: Run, prompt: str, program: str) -> Work:
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
        tools=fleet_access.program() if run.access is not None else None,
        superuser=hasattr(os, "geteuid") and os.geteuid() == 0,
    )


def _program(run: Run, start: Start, credentials: Iterable[str]) -> Program:
    return Program(
        argv=start.argv,
        cwd=run.worktree,
        env={
            **run.environment(*credentials),
            **(run.access.environment if run.access is not None else {}),
            **start.env,
        },
        stdin=start.stdin,
        stdin_open=start.stdin_open,
        mark=run.mark,
    )


def _stall_s(run: Run) -> float | None:
    stall = run.assignment.manifest.stall
    return stall.total_seconds() if stall else None


class Followed:
    """Hears an engine: what it says goes into the log, what it uses is watched."""

    def __init__(self, run: Run, reader: Reader, used: Callable[[], None]) -> None:
        """Follow for this run; `used` hears when it has used more."""
        self._run = run
        self._used = used
        self.reader = reader
        self.given_up: Failure | None = None
        """What the engine would wait out for too long."""

    def line(self, text: str, *, stderr: bool) -> Iterable[bytes]:
        """What must be said to the engine because of a line."""
        events = list(self.reader.read(text, stderr=stderr))
        if not events and not text.lstrip().startswith("{"):
            self._run.hear_raw(f"{text}\n".encode())
        return [data for event in events for data in self._take(event)]

    def _take(self, event: RunEvent) -> Iterable[bytes]:
        """What must be said to the engine because of an event; an empty word closes its stdin."""
        run = self._run
        match event:
            case Text(text):
                run.hear_raw(f"{text}\n".encode())
            case ToolCall(name):
                run.hear_raw(f"[{name}]\n".encode())
                run.findings.tools = with_call(run.findings.tools, name)
            case Session(session_id):
                run.session = session_id
            case Used(usage):
                run.findings.usage = _sum(run, usage)
                _watch_budget(run)
                self._used()
            case Retrying(failure):
                self._retrying(failure)
            case Say(data, last=last):
                return (data, b"") if last else (data,)
        return ()

    def _retrying(self, failure: Failure) -> None:
        self._run.tell(f"the engine tries again ({failure.kind}): {failure.message}")
        if failure.kind is Trouble.ALLOWANCE:
            self.given_up = failure
            self._run.stop.request(StopReason.LIMITED, "the engine's allowance is used up")


def _sum(run: Run, usage: Usage) -> Usage:
    """The usage of a start, priced where the engine did not, with that of those before it."""
    mine = replace(usage, engine=run.assignment.engine)
    return added(run.findings.finished_turns_usage, estimated(mine, run.equipment.prices))


def _watch_budget(run: Run) -> None:
    """Stop a run that has gone over its budget, metered or estimated."""
    budget, usage = run.assignment.manifest.budget, run.findings.usage
    if budget is None or usage is None:
        return
    if budget.tokens is not None and usage.tokens > budget.tokens:
        run.stop.request(StopReason.BUDGET, f"{usage.tokens} tokens are used of {budget.tokens}")
    spent = usage.cost_nano_usd
    if budget.usd_nanos is not None and spent is not None and spent > budget.usd_nanos:
        guess = " by our prices" if usage.estimated else ""
        shown = f"{format_usd(spent)} USD of {format_usd(budget.usd_nanos)}"
        run.stop.request(StopReason.BUDGET, f"{shown} are spent{guess}")


def _note(run: Run, verdict: Verdict) -> None:
    run.findings.usage = run.findings.finished_turns_usage = _sum(run, verdict.usage)
    # Some engines tell only at their end what they have used.
    _watch_budget(run)
    run.session = verdict.session or run.session
    run.session_usage = verdict.session_usage
    if run.session is not None and verdict.session_usage is not None:
        known = KnownSession(run.session, verdict.session_usage)
        homes.put(run.home, {SESSION_FILE: msgspec.json.encode(known)})


class KnownSession(msgspec.Struct, frozen=True):
    """What a session had used when it was last at work: some engines count from its beginning."""

    session: str
    usage: Usage


def _recalled(home: Path, session: str | None) -> Usage | None:
    try:
        known = msgspec.json.decode((home / SESSION_FILE).read_bytes(), type=KnownSession)
    except (OSError, msgspec.DecodeError):
        return None
    return known.usage if known.session == session else None
