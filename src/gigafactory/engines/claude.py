"""Claude Code: `claude -p`, a stream of JSON lines that ends in a `result`."""

from collections.abc import Iterator, Mapping
from datetime import datetime

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
    API_PATTERNS,
    failure_patterns,
    failure_without_result,
    kind_of_message,
    kind_of_status,
    shorten,
)
from gigafactory.engines.protocol.json_lines import (
    NANOS_PER_USD,
    Record,
    count,
    iso_time,
    nano_usd,
    parse_records,
    record_at,
    records_at,
    text,
    unix_time,
    value,
)
from gigafactory.engines.protocol.line_reader import LineReader
from gigafactory.engines.protocol.usage_counter import SEEN_MAX, add, maximum, subtract

PERSONA_FILE = ".gigafactory/persona.md"
TOOLS_FILE = ".gigafactory/tools.json"
TOOLS_AT_ONCE = {
    "ENABLE_TOOL_SEARCH": "false",
    "MCP_CONNECTION_NONBLOCKING": "0",
    "MCP_CONNECT_TIMEOUT_MS": "60000",
}
"""The first turn waits for our MCP server, and its few tools are listed without a search."""
SYNTHETIC = "<synthetic>"
"""Model name of messages that Claude Code writes itself after a failed call."""

_SUBTYPES = {
    "error_max_turns": FailureKind.TURN_LIMIT,
    "error_max_budget_usd": FailureKind.BUDGET_LIMIT,
}
_TAGS = {
    "authentication_failed": FailureKind.AUTH,
    "billing_error": FailureKind.BILLING,
    "rate_limit": FailureKind.RATE_LIMIT,
    "overloaded": FailureKind.OVERLOADED,
    "server_error": FailureKind.SERVER,
}
_PATTERNS = failure_patterns(
    (r"No conversation found", FailureKind.UNKNOWN_SESSION),
    (r"Not logged in|Please run /login|Invalid API key", FailureKind.AUTH),
    (r"hit your (?:\w+ )?limit|usage limit reached", FailureKind.ALLOWANCE),
    (r"Credit balance is too low", FailureKind.BILLING),
    (r"cannot be used with root", FailureKind.PERMISSION),
)


def _start(work: Work) -> Start:
    """Pass the prompt through stdin, and the persona in a file."""
    session = work.session or work.new_session
    return Start(
        argv=(work.program, *_arguments(work)),
        stdin=work.prompt.encode(),
        env={
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "4",
            "DISABLE_AUTOUPDATER": "1",
            **({"IS_SANDBOX": "1"} if work.runs_as_root else {}),
            **(TOOLS_AT_ONCE if work.fleet_tools else {}),
        },
        files=_files(work),
        side_files=(f".claude/projects/*/{session}.jsonl",),
    )


def _files(work: Work) -> Mapping[str, bytes]:
    persona = {PERSONA_FILE: work.persona.encode()} if work.persona else {}
    return persona | ({TOOLS_FILE: _mcp_config(work.fleet_tools)} if work.fleet_tools else {})


def _mcp_config(program: str) -> bytes:
    """Return our MCP servers only; Claude Code expands the variables itself."""
    passed = {name: f"${{{name}}}" for name in mcp_args.VARIABLES}
    how = {"type": "stdio", "command": program, "args": mcp_args.ARGUMENTS, "env": passed}
    return msgspec.json.encode({"mcpServers": {mcp_args.NAME: how}})


def _arguments(work: Work) -> Iterator[str]:
    yield from ("--print", "--output-format=stream-json", "--verbose", "--include-partial-messages")
    # Settings of a repo could run hooks, or send the API key elsewhere.
    yield "--setting-sources=user"
    yield "--dangerously-skip-permissions" if work.yolo else "--permission-mode=acceptEdits"
    if work.session is not None:
        yield f"--resume={work.session}"
    else:
        yield f"--session-id={work.new_session}"
    if work.model:
        yield f"--model={work.model}"
    if work.persona:
        yield f"--append-system-prompt-file={work.home}/{PERSONA_FILE}"
    if work.fleet_tools:
        yield f"--mcp-config={work.home}/{TOOLS_FILE}"
        yield f"--allowedTools=mcp__{mcp_args.NAME}"
    if work.usd_nanos_max is not None:
        # Newer versions compare it with the cost of the whole session.
        before = work.session_usage.cost_nano_usd if work.session_usage else None
        dollars, nanos = divmod(work.usd_nanos_max + (before or 0), NANOS_PER_USD)
        yield f"--max-budget-usd={dollars}.{nanos:09d}"


class ClaudeReader(LineReader):
    """Follows one start of Claude Code."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._calls: dict[str, Usage] = {}
        self._message_by_speaker: dict[str, str] = {}
        self._live = Usage(model=work.model)
        self._tag = ""
        self._rejected = False
        self._until: datetime | None = None
        self._result: Record | None = None

    def _record(self, record: Record) -> Iterator[EngineEvent]:
        match text(record, "type"):
            case "system":
                yield from self._system(record)
            case "assistant":
                yield from self._assistant(record)
            case "stream_event":
                yield from self._stream_event(record)
            case "rate_limit_event":
                self._limit(record_at(record, "rate_limit_info"))
            case "result":
                self._result = record
                yield from self._set_session(text(record, "session_id"))
                yield UsageUpdate(self._usage(record))
            case _:
                pass

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:
        """Judge the run by its last result; without one, count usage from the session file."""
        if self._result is None:
            for data in files.values():
                self._read_session_file(data)
            failure: Failure | None = failure_without_result(
                exit_code, str(self._stderr), _PATTERNS
            )
            return EngineVerdict(
                failure=failure,
                text=self._last_text,
                session=self._session,
                usage=self._live,
                session_usage=add(self._live, self._usage_before()),
            )
        failure = self._failure(self._result)
        unknown = failure is not None and failure.kind is FailureKind.UNKNOWN_SESSION
        return EngineVerdict(
            failure=failure,
            text=text(self._result, "result") or self._last_text,
            session=None if unknown else self._session,
            usage=self._usage(self._result),
            session_usage=self._session_usage(self._result),
        )

    def _system(self, record: Record) -> Iterator[EngineEvent]:
        match text(record, "subtype"):
            case "init":
                self._model = text(record, "model") or self._model
                self._live = msgspec.structs.replace(self._live, model=self._model)
                yield from self._set_session(text(record, "session_id"))
            case "api_retry":
                tag = text(record, "error")
                kind = (
                    _TAGS.get(tag)
                    or kind_of_status(count(record, "error_status"))
                    or FailureKind.NETWORK
                )
                yield Retrying(Failure(kind, shorten(tag)))
            case _:
                pass

    def _assistant(self, record: Record) -> Iterator[EngineEvent]:
        self._tag = text(record, "error") or self._tag
        message = record_at(record, "message")
        self._count_call(message)
        for block in records_at(message, "content"):
            if text(block, "type") == "text":
                yield from self._speak(text(block, "text"))
            elif text(block, "type") == "tool_use":
                yield from self._tool_call(text(block, "name"), text(block, "id"))

    def _stream_event(self, record: Record) -> Iterator[EngineEvent]:
        parent_call = text(record, "parent_tool_use_id")
        event = record_at(record, "event")
        match text(event, "type"):
            case "message_start" if len(self._message_by_speaker) < SEEN_MAX:
                self._message_by_speaker[parent_call] = text(event, "message", "id")
                self._count_call(record_at(event, "message"))
            case "message_delta":
                self._count_call(
                    {
                        "id": self._message_by_speaker.get(parent_call, ""),
                        "usage": value(event, "usage"),
                    }
                )
                yield UsageUpdate(self._live)
            case "message_stop":
                self._message_by_speaker.pop(parent_call, None)
            case _:
                pass

    def _count_call(self, message: Record) -> None:
        """Count a model call by its largest figures: the first ones are too small."""
        name = text(message, "id")
        if not name or text(message, "model") == SYNTHETIC:
            return
        if name not in self._calls and len(self._calls) >= SEEN_MAX:
            return
        seen = Usage(
            tokens_in=count(message, "usage", "input_tokens"),
            tokens_cached=count(message, "usage", "cache_read_input_tokens"),
            tokens_cache_write=count(message, "usage", "cache_creation_input_tokens"),
            tokens_out=count(message, "usage", "output_tokens"),
            turns=1,
        )
        before = self._calls.get(name, Usage())
        self._calls[name] = maximum(seen, before)
        self._live = add(self._live, subtract(self._calls[name], before))

    def _read_session_file(self, data: bytes) -> None:
        """Count the calls of this start in the session file, which has earlier ones too."""
        for record in parse_records(data):
            message = record_at(record, "message")
            at = iso_time(record, "timestamp")
            recent = at is not None and at >= self._work.now
            if text(record, "type") == "assistant" and (
                recent or text(message, "id") in self._calls
            ):
                self._count_call(message)

    def _limit(self, info: Record) -> None:
        self._rejected = text(info, "status") == "rejected"
        self._until = unix_time(info, "resetsAt") if self._rejected else None

    def _usage(self, result: Record) -> Usage:
        """Return the usage of this start."""
        total = _sum_models(result, self._model)
        if self._counts_session(total):
            total = subtract(total, self._usage_before())
        return msgspec.structs.replace(total, turns=count(result, "num_turns"))

    def _session_usage(self, result: Record) -> Usage:
        total = _sum_models(result, self._model)
        return total if self._counts_session(total) else add(total, self._usage_before())

    def _usage_before(self) -> Usage:
        before = self._work.session_usage if self._work.session is not None else None
        return before or Usage()

    def _counts_session(self, total: Usage) -> bool:
        """Return whether a result counts the whole session, as newer versions do.

        Older ones count one start: then the total is not much above what the stream told.
        """
        return total.tokens - self._live.tokens >= self._usage_before().tokens

    def _failure(self, result: Record) -> Failure | None:
        if value(result, "is_error") is False:
            return None
        errors = value(result, "errors")
        listed = " ".join(str(error) for error in errors) if isinstance(errors, list) else ""
        message = shorten(text(result, "result") or listed or str(self._stderr))
        if self._rejected:
            return Failure(FailureKind.ALLOWANCE, message, self._until)
        return Failure(self._kind(result, message), message)

    def _kind(self, result: Record, message: str) -> FailureKind:
        if text(result, "terminal_reason").startswith("aborted"):
            return FailureKind.KILLED
        tag = _TAGS.get(self._tag)
        return (
            _SUBTYPES.get(text(result, "subtype"))
            or kind_of_message(message, _PATTERNS, API_PATTERNS)
            or (tag if tag is FailureKind.BILLING else None)
            or kind_of_status(count(result, "api_error_status"))
            or tag
            or FailureKind.CRASH
        )


def _sum_models(result: Record, model: str | None) -> Usage:
    """Sum up by model: the plain `usage` omits side calls and the last call of a budget."""
    usage = Usage(model=model, cost_nano_usd=nano_usd(result, "total_cost_usd"))
    models = record_at(result, "modelUsage")
    for each in models:
        used = record_at(models, each)
        usage = add(
            usage,
            Usage(
                tokens_in=count(used, "inputTokens"),
                tokens_cached=count(used, "cacheReadInputTokens"),
                tokens_cache_write=count(used, "cacheCreationInputTokens"),
                tokens_out=count(used, "outputTokens"),
            ),
        )
    return usage


CLAUDE = Engine(
    name="claude",
    programs=("claude",),
    flags=(
        "--print",
        "--output-format",
        "--verbose",
        "--include-partial-messages",
        "--setting-sources",
        "--dangerously-skip-permissions",
        "--permission-mode",
        "--model",
        "--session-id",
        "--resume",
        # Its help mentions the flag only as `--append-system-prompt[-file]`.
        "--append-system-prompt",
        "--max-budget-usd",
    ),
    credentials=(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
    ),
    stop_signals=("SIGINT",),
    start=_start,
    reader=ClaudeReader,
)
"""Claude Code, non-interactive."""
