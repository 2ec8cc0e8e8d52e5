"""Copilot CLI: JSON lines for events, and a separate file for usage."""

from collections.abc import Iterator, Mapping

import msgspec

from gigafactory.domain.job.run import Usage
from gigafactory.engines.protocol.arguments import session_arguments
from gigafactory.engines.protocol.engine import (
    Engine,
    EngineEvent,
    EngineVerdict,
    Failure,
    FailureKind,
    Retrying,
    Start,
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
    parse_record,
    record_at,
    text,
    value,
)
from gigafactory.engines.protocol.line_reader import LineReader
from gigafactory.engines.protocol.prompt import prompt_with_persona
from gigafactory.engines.protocol.usage_counter import add, subtract

_ERROR_TYPES = {"authentication": FailureKind.AUTH, "rate_limit": FailureKind.RATE_LIMIT}
_PATTERNS = failure_patterns(
    (r"usage limit|premium requests|monthly (?:limit|quota)", FailureKind.ALLOWANCE),
    (r"exceeded your current quota|billing", FailureKind.BILLING),
    (r"No authentication information found", FailureKind.AUTH),
    (r"No session, task, or name matched", FailureKind.UNKNOWN_SESSION),
)


def _start(work: Work) -> Start:
    """Pass the prompt through stdin; use a new usage file for each start."""
    return Start(
        argv=(work.program, *_arguments(work)),
        stdin=prompt_with_persona(work).encode(),
        side_files=(_usage_file(work),),
    )


def _usage_file(work: Work) -> str:
    return f"copilot-usage-{work.new_session}.json"


def _arguments(work: Work) -> Iterator[str]:
    yield from ("--output-format=json", "--no-ask-user")
    yield from ("--no-auto-update", "--disable-client-telemetry")
    yield f"--usage-output-file={work.home}/{_usage_file(work)}"
    yield "--allow-all" if work.yolo else "--allow-tool=write"
    yield from session_arguments(work)


class CopilotReader(LineReader):
    """Follows one start of Copilot CLI."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._error: Record | None = None
        self._result: Record | None = None

    def _record(self, record: Record) -> Iterator[EngineEvent]:
        data = record_at(record, "data")
        match text(record, "type"):
            case "assistant.turn_start":
                yield from self._set_session(self._work.session or self._work.new_session)
            case "assistant.message":
                self._model = text(data, "model") or self._model
                yield from self._speak(text(data, "content"))
            case "tool.execution_start":
                yield from self._tool_call(text(data, "toolName"), text(data, "toolCallId"))
            case "model.call_failure":
                yield Retrying(self._failure(data, text(data, "errorMessage")))
            case "session.error":
                self._error = data
            case "result":
                self._result = record
                yield from self._set_session(text(record, "sessionId"))
            case _:
                pass

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:
        """Success if there is a result with exit code 0 and no error."""
        usage, session_usage = self._used(files)
        return EngineVerdict(
            failure=self._final_failure(exit_code),
            text=self._last_text,
            session=self._session,
            usage=usage,
            session_usage=session_usage,
        )

    def _final_failure(self, exit_code: int) -> Failure | None:
        if self._error is not None:
            return self._failure(self._error, text(self._error, "message"))
        if self._result is None:
            return failure_without_result(exit_code, str(self._stderr), _PATTERNS)
        if value(self._result, "exitCode") == 0:
            return None
        return Failure(
            FailureKind.CRASH, shorten(str(self._stderr)) or "the result reports a failure"
        )

    def _failure(self, error: Record, error_text: str) -> Failure:
        message = shorten(error_text)
        named_kind = _ERROR_TYPES.get(text(error, "errorType"))
        kind = classify(message, _PATTERNS, count(error, "statusCode"), named_kind)
        return Failure(kind, message)

    def _used(self, files: Mapping[str, bytes]) -> tuple[Usage, Usage | None]:
        """Usage of this start: the file counts the whole session."""
        before = self._work.session_usage if self._work.session else None
        known = self._work.session is None or before is not None
        total = _session_usage(parse_record(files.get(_usage_file(self._work), b"")))
        share = subtract(total, before) if total is not None and known else Usage()
        usage = msgspec.structs.replace(share, model=self._model)
        return usage, total if total is not None else before


def _session_usage(file: Record | None) -> Usage | None:
    if file is None:
        return None
    total = Usage()
    models = record_at(file, "modelMetrics")
    for model in models:
        used = record_at(models, model, "usage")
        cached, written = count(used, "cacheReadTokens"), count(used, "cacheWriteTokens")
        total = add(
            total,
            Usage(
                tokens_in=max(count(used, "inputTokens") - cached - written, 0),
                tokens_cached=cached,
                tokens_cache_write=written,
                tokens_out=count(used, "outputTokens"),
                tokens_reasoning=count(used, "reasoningTokens"),
                turns=count(models, model, "requests", "count"),
            ),
        )
    return total


COPILOT = Engine(
    name="copilot",
    engine_class="chat-coder",
    programs=("copilot",),
    flags=(
        "--output-format",
        "--no-ask-user",
        "--no-auto-update",
        "--disable-client-telemetry",
        "--usage-output-file",
        "--allow-all",
        "--allow-tool",
        "--model",
        "--session-id",
        "--resume",
    ),
    credentials=(
        "COPILOT_GITHUB_TOKEN",
        "COPILOT_MODEL",
        "COPILOT_OFFLINE",
        "COPILOT_PROVIDER_API_KEY",
        "COPILOT_PROVIDER_BASE_URL",
        "COPILOT_PROVIDER_TYPE",
    ),
    repo_settings=(
        ".github/hooks",
        ".github/copilot",
        ".github/mcp.json",
        ".vscode/mcp.json",
        ".mcp.json",
        ".claude/settings.json",
    ),
    start=_start,
    reader=CopilotReader,
)
"""Copilot CLI, non-interactive."""
