"""Codex: `codex exec --json`; counts usage per thread, and reports limits in prose."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from gigafactory.domain.job.run import Usage
from gigafactory.engines.protocol import mcp_args
from gigafactory.engines.protocol.engine import (
    Engine,
    EngineEvent,
    EngineVerdict,
    Failure,
    FailureKind,
    Retrying,
    Start,
    UsageUpdate,
    Work,
)
from gigafactory.engines.protocol.failure import (
    classify,
    failure_patterns,
    failure_without_result,
    shorten,
)
from gigafactory.engines.protocol.json_lines import (
    Record,
    count,
    iso_time,
    parse_records,
    record_at,
    text,
)
from gigafactory.engines.protocol.line_reader import LineReader
from gigafactory.engines.protocol.usage_counter import subtract

PROFILE = "gigafactory"
RETRYING = "Reconnecting..."
INTERRUPTED_EXIT = 1
"""Exit code of an interrupt, if a turn is still open: every other failure closes its turn."""

_STATUS = re.compile(r"(?:unexpected|last) status:? (\d{3})\b")
_RESET = re.compile(
    r"try again at (?:(?P<date>[A-Z][a-z]{2} \d{1,2})(?:st|nd|rd|th), (?P<year>\d{4}) )?"
    r"(?P<time>\d{1,2}:\d{2} [AP]M)"
)
_NOT_TOOLS = frozenset({"agent_message", "reasoning", "error", "todo_list", "plan"})
_PATTERNS = failure_patterns(
    (r"usage limit", FailureKind.ALLOWANCE),
    (r"quota exceeded|exceeded your current quota", FailureKind.BILLING),
    (r"at capacity|overloaded", FailureKind.OVERLOADED),
    (r"experiencing high demand", FailureKind.SERVER),
    (r"missing environment variable|not logged in|log ?in again|refresh token", FailureKind.AUTH),
    (r"no rollout found|thread/resume failed", FailureKind.UNKNOWN_SESSION),
    (r"not inside a trusted directory", FailureKind.PERMISSION),
)


def _start(work: Work) -> Start:
    """Pass the prompt through stdin (`-`), and the persona in a profile file."""
    return Start(
        argv=(work.program, *_arguments(work)),
        stdin=work.prompt.encode(),
        files=_profile(work.persona) if work.persona else {},
        side_files=(".codex/sessions/*/*/*/rollout-*.jsonl",),
    )


def _arguments(work: Work) -> Iterator[str]:
    yield "exec"
    if work.persona:
        yield f"--profile={PROFILE}"
    if work.session is not None:
        yield "resume"
    yield from ("--json", "--skip-git-repo-check")
    yield from ("--config=analytics.enabled=false", "--config=check_for_update_on_startup=false")
    # Settings of a repo could start servers and other programs.
    worktree = msgspec.json.encode(work.worktree).decode()
    yield f'--config=projects={{{worktree}={{trust_level="untrusted"}}}}'
    if work.yolo:
        yield "--dangerously-bypass-approvals-and-sandbox"
    else:
        yield from ("--config=sandbox_mode=workspace-write", "--config=approval_policy=never")
    if work.model:
        yield f"--model={work.model}"
    if work.fleet_tools:
        yield f"--config=mcp_servers.{mcp_args.NAME}={_mcp_config(work.fleet_tools)}"
    yield "--"
    if work.session is not None:
        yield work.session
    yield "-"


def _mcp_config(program: str) -> str:
    quoted = [msgspec.json.encode(part).decode() for part in (program, *mcp_args.ARGUMENTS)]
    names = (*mcp_args.VARIABLES, *mcp_args.NETWORK_VARIABLES)
    passed = msgspec.json.encode(names).decode()
    how = f"command={quoted[0]},args=[{','.join(quoted[1:])}],env_vars={passed}"
    # It waits only for required servers, and would start without the others.
    return f"{{{how},required=true,startup_timeout_sec=60}}"


def _profile(persona: str) -> Mapping[str, bytes]:
    # A JSON string is a TOML string, except for DEL, which JSON allows.
    quoted = msgspec.json.encode(persona).replace(b"\x7f", b"\\u007f")
    return {f".codex/{PROFILE}.config.toml": b"developer_instructions = " + quoted + b"\n"}


class CodexReader(LineReader):
    """Follows one start of Codex."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._turn_open = False
        self._total: Usage | None = None
        self._failed: str | None = None
        self._completed = False

    def _record(self, record: Record) -> Iterator[EngineEvent]:
        match text(record, "type"):
            case "thread.started":
                yield from self._set_session(text(record, "thread_id"))
            case "turn.started":
                self._turn_open = True
            case "turn.completed":
                self._turn_open, self._completed = False, True
                self._total = _tokens(record_at(record, "usage"))
                yield UsageUpdate(self._used(self._work.session_usage))
            case "turn.failed":
                self._turn_open = False
                self._failed = text(record, "error", "message") or "the turn failed"
            case "error" if text(record, "message").startswith(RETRYING):
                yield Retrying(self._failure(text(record, "message").removeprefix(RETRYING)))
            case "item.started" | "item.completed" as type_:
                yield from self._item(record_at(record, "item"), done=type_ == "item.completed")
            case _:
                pass

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:
        """Success if a turn completed and none failed; the rollout file has the other usage."""
        before, turns = self._read_rollout(files)
        usage = msgspec.structs.replace(self._used(before), turns=turns)
        failure = self._final_failure(exit_code)
        unknown = failure is not None and failure.kind is FailureKind.UNKNOWN_SESSION
        return EngineVerdict(
            failure=failure,
            text=self._last_text,
            session=None if unknown else self._session,
            usage=usage,
            session_usage=self._total or before,
        )

    def _final_failure(self, exit_code: int) -> Failure | None:
        if self._failed is not None:
            return self._failure(self._failed)
        if self._completed:
            return None
        if self._turn_open and exit_code == INTERRUPTED_EXIT:
            return Failure(FailureKind.KILLED, "interrupted during a turn")
        return failure_without_result(exit_code, str(self._stderr), _PATTERNS)

    def _item(self, item: Record, *, done: bool) -> Iterator[EngineEvent]:
        kind = text(item, "type")
        if kind == "agent_message":
            if done:
                yield from self._speak(text(item, "text"))
        elif kind and kind not in _NOT_TOOLS:
            yield from self._tool_call(text(item, "tool") or kind, text(item, "id"))

    def _used(self, before: Usage | None) -> Usage:
        total = self._total or before or Usage()
        return msgspec.structs.replace(
            subtract(total, before),
            model=self._model,
        )

    def _read_rollout(self, files: Mapping[str, bytes]) -> tuple[Usage | None, int]:
        """Return usage before this start and the number of calls since, from the rollout file."""
        before, latest, turns = None, None, 0
        for record in self._rollout_records(files):
            if text(record, "type") == "turn_context":
                self._model = self._model or text(record, "payload", "model") or None
            if text(record, "payload", "type") != "token_count":
                continue
            total = _tokens(record_at(record, "payload", "info", "total_token_usage"))
            at = iso_time(record, "timestamp")
            if at is not None and at < self._work.now:
                before = total
            elif total not in (latest, before):
                latest, turns = total, turns + 1
        self._total = self._total or latest
        if self._work.session is None:
            return None, turns
        return self._work.session_usage or before, turns

    def _rollout_records(self, files: Mapping[str, bytes]) -> Iterator[Record]:
        for name, data in files.items():
            if self._session and name.endswith(f"-{self._session}.jsonl"):
                yield from parse_records(data)

    def _failure(self, error_text: str) -> Failure:
        message = shorten(error_text)
        status = _STATUS.search(message)
        kind = classify(message, _PATTERNS, int(status[1]) if status else 0)
        until = reset_time(message, self._work.now) if kind is FailureKind.ALLOWANCE else None
        return Failure(kind, message, until)


def _tokens(usage: Record) -> Usage:
    cached = count(usage, "cached_input_tokens")
    written = count(usage, "cache_write_input_tokens")
    return Usage(
        tokens_in=max(count(usage, "input_tokens") - cached - written, 0),
        tokens_cached=cached,
        tokens_cache_write=written,
        tokens_out=count(usage, "output_tokens"),
        tokens_reasoning=count(usage, "reasoning_output_tokens"),
    )


def reset_time(message: str, now: datetime) -> datetime | None:
    """Return when a limit ends, from a local time of day in the zone of `now`."""
    match = _RESET.search(message)
    if match is None:
        return None
    try:
        time = datetime.strptime(match["time"], "%I:%M %p").replace(tzinfo=now.tzinfo).timetz()
        day = now.date()
        if match["date"]:
            day = datetime.strptime(f"{match['date']} {match['year']}", "%b %d %Y").date()  # noqa: DTZ007 - the zone is that of the time
    except ValueError:
        return None
    at = datetime.combine(day, time)
    if not match["date"] and at <= now:
        at += timedelta(days=1)
    try:
        return at.astimezone(UTC)
    except OverflowError:
        return None


CODEX = Engine(
    name="codex",
    programs=("codex",),
    help_argv=("exec", "--help"),
    flags=(
        "--json",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        "--config",
        "--profile",
        "--model",
        "resume",
    ),
    credentials=("CODEX_API_KEY", "OPENAI_API_KEY"),
    stop_signals=("SIGINT",),
    start=_start,
    reader=CodexReader,
)
"""Codex, non-interactive."""
