"""Gemini CLI: a stream of JSON lines, and exit codes that contain the HTTP status."""

import re
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
    Text,
    UsageUpdate,
    Work,
)
from gigafactory.engines.protocol.failure import (
    classify,
    failure_patterns,
    failure_without_result,
    kind_of_message,
    kind_of_status,
    shorten,
)
from gigafactory.engines.protocol.json_lines import Record, count, record_at, text
from gigafactory.engines.protocol.line_reader import LineReader
from gigafactory.engines.protocol.prompt import prompt_with_persona
from gigafactory.engines.protocol.tail import MessageBuffer

SETTINGS_FILE = ".gemini/settings.json"
SETTINGS = msgspec.json.encode(
    {
        # A file of the repo must not redirect requests with our API key.
        "advanced": {"ignoreLocalEnv": True},
        "general": {"enableAutoUpdate": False, "maxAttempts": 4},
        "privacy": {"usageStatisticsEnabled": False},
        # Without this, it picks a method that fails without a terminal.
        "security": {"auth": {"selectedType": "${GEMINI_DEFAULT_AUTH_TYPE:-gemini-api-key}"}},
    }
)

_EXITS = {41: FailureKind.AUTH, 53: FailureKind.TURN_LIMIT, 55: FailureKind.PERMISSION}
STATUS_MODULUS = 256
"""It exits with the HTTP status, of which the system keeps only the lowest byte."""

_STATUS = re.compile(r'"code":\s*(\d{3})\b')
_RETRY = re.compile(r"Attempt \d+ failed with status (\d{3})\. Retrying")
_PATTERNS = failure_patterns(
    (r"exceeded your current quota|daily quota|quota will reset", FailureKind.ALLOWANCE),
    (r"billing", FailureKind.BILLING),
    (r"overloaded", FailureKind.OVERLOADED),
    (r"max session turns", FailureKind.TURN_LIMIT),
    (r"Error resuming session", FailureKind.UNKNOWN_SESSION),
    (r"set an Auth method|Invalid auth method", FailureKind.AUTH),
    (r"not running in a trusted directory", FailureKind.PERMISSION),
)


def _start(work: Work) -> Start:
    """Pass the prompt through stdin, which it reads if that is not a terminal."""
    return Start(
        argv=(work.program, *_arguments(work)),
        stdin=prompt_with_persona(work).encode(),
        env={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        files={SETTINGS_FILE: SETTINGS},
    )


def _arguments(work: Work) -> Iterator[str]:
    yield "--output-format=stream-json"
    yield "--approval-mode=yolo" if work.yolo else "--approval-mode=auto_edit"
    yield from session_arguments(work)


class GeminiReader(LineReader):
    """Follows one start of Gemini CLI."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._message = MessageBuffer()
        self._result: Record | None = None

    def _record(self, record: Record) -> Iterator[EngineEvent]:
        match text(record, "type"):
            case "init":
                self._model = text(record, "model") or self._model
                yield from self._set_session(text(record, "session_id"))
            case "message" if text(record, "role") == "assistant" and text(record, "content"):
                self._message.add(text(record, "content"))
                yield Text(text(record, "content"))
            case "tool_use":
                self._message.clear()
                yield from self._tool_call(text(record, "tool_name"), text(record, "tool_id"))
            case "result":
                self._result = record
                yield UsageUpdate(self._usage())
            case _:
                pass

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:  # noqa: ARG002 - it leaves none
        """Success if the result says so; otherwise the exit code classifies the failure."""
        return EngineVerdict(
            failure=self._failure(exit_code),
            text=str(self._message),
            session=self._session,
            usage=self._usage(),
        )

    def _stderr_line(self, line: str) -> Iterator[EngineEvent]:
        retry = _RETRY.search(line)
        if retry is None:
            self._stderr.add(line)
            return
        kind = (
            kind_of_message(line, _PATTERNS) or kind_of_status(int(retry[1])) or FailureKind.SERVER
        )
        yield Retrying(Failure(kind, shorten(line)))

    def _usage(self) -> Usage:
        stats = record_at(self._result or {}, "stats")
        written = count(stats, "output_tokens")
        # Reasoning is only in the total; it is billed as output.
        thinking = max(count(stats, "total_tokens") - count(stats, "input_tokens") - written, 0)
        return Usage(
            model=self._model,
            tokens_in=count(stats, "input"),
            tokens_cached=count(stats, "cached"),
            tokens_out=written + thinking,
            tokens_reasoning=thinking,
        )

    def _failure(self, exit_code: int) -> Failure | None:
        if self._result is None:
            return self._unfinished(exit_code)
        if text(self._result, "status") == "success":
            return None
        message = shorten(text(self._result, "error", "message"))
        return Failure(self._kind(message, exit_code), message)

    def _kind(self, message: str, exit_code: int) -> FailureKind:
        status = _STATUS.search(message)
        kind = _EXITS.get(exit_code) or kind_of_status(exit_code + STATUS_MODULUS)
        return classify(message, _PATTERNS, int(status[1]) if status else 0, kind)

    def _unfinished(self, exit_code: int) -> Failure:
        if exit_code == 0 and self._session is not None:
            return Failure(FailureKind.KILLED, "stopped by a signal (exit 0 without a result)")
        failure = failure_without_result(exit_code, str(self._stderr), _PATTERNS)
        if failure.kind is FailureKind.NO_END and exit_code in _EXITS:
            return Failure(_EXITS[exit_code], failure.message)
        return failure


GEMINI = Engine(
    name="gemini",
    programs=("gemini",),
    flags=(
        "--output-format",
        "--approval-mode",
        "--model",
        "--session-id",
        "--resume",
    ),
    credentials=(
        "GEMINI_API_KEY",
        "GEMINI_DEFAULT_AUTH_TYPE",
        "GOOGLE_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ),
    repo_settings=(".gemini",),
    start=_start,
    reader=GeminiReader,
)
"""Gemini CLI, non-interactive."""
