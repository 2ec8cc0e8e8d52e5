"""OpenCode: `opencode run --format json`; one step per model call, errors with HTTP status."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from gigafactory.domain.job.run import Usage
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
    classify_refusal,
    failure_patterns,
    failure_without_result,
    shorten,
)
from gigafactory.engines.protocol.json_lines import (
    Record,
    count,
    nano_usd,
    record_at,
    text,
    unix_time,
)
from gigafactory.engines.protocol.line_reader import LineReader
from gigafactory.engines.protocol.usage_counter import add, sum_costs

CONFIG_FILE = ".gigafactory/opencode.json"
PERSONA_FILE = ".gigafactory/persona.md"
WAIT_MAX_S = 30 * 24 * 3600
"""No limit lasts longer: ignore larger values."""

# While it retries, this log line is its only output.
_RETRY = 'message="stream error"'
_REASON = ' error.error="'
_ERROR_NAME = re.compile(r"\w+: ")
_PATTERNS = failure_patterns((r"Session not found", FailureKind.UNKNOWN_SESSION))


def _start(work: Work) -> Start:
    """Pass the prompt through stdin, and the persona in a file that the configuration names."""
    config: dict[str, object] = {"autoupdate": False, "share": "disabled"}
    files = {}
    if work.persona:
        config["instructions"] = [f"{work.home}/{PERSONA_FILE}"]
        files[PERSONA_FILE] = work.persona.encode()
    return Start(
        argv=(work.program, *_arguments(work)),
        stdin=work.prompt.encode(),
        env={
            "OPENCODE_CONFIG": f"{work.home}/{CONFIG_FILE}",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        },
        files={CONFIG_FILE: json.dumps(config).encode(), **files},
    )


def _arguments(work: Work) -> Iterator[str]:
    yield from ("run", "--format=json", "--print-logs", "--log-level=WARN")
    if work.yolo:
        yield "--auto"
    if work.model:
        yield f"--model={work.model}"
    if work.session is not None:
        yield f"--session={work.session}"


class OpenCodeReader(LineReader):
    """Follows one start of OpenCode."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._usage = Usage(model=work.model)
        self._stopped = False
        self._error: Failure | None = None

    def _record(self, record: Record) -> Iterator[EngineEvent]:
        yield from self._set_session(text(record, "sessionID"))
        match text(record, "type"):
            case "text":
                yield from self._speak(text(record, "part", "text"))
            case "tool_use":
                yield from self._tool_call(text(record, "part", "tool"))
            case "step_start":
                self._stopped = False
            case "step_finish":
                self._stopped = text(record, "part", "reason") == "stop"
                self._count(record_at(record, "part"))
                yield UsageUpdate(self._usage)
            case "error":
                self._error = _failure(record)
            case _:
                pass

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:  # noqa: ARG002 - it leaves none
        """Success if the last step stopped by itself and no error was reported."""
        failure = self._error
        if failure is None and not self._stopped:
            failure = failure_without_result(exit_code, str(self._stderr), _PATTERNS)
        return EngineVerdict(
            failure=failure, text=self._last_text, session=self._session, usage=self._usage
        )

    def _stderr_line(self, line: str) -> Iterator[EngineEvent]:
        self._stderr.add(line)
        if (reason := _retry_reason(line)) is not None:
            message = shorten(reason)
            yield Retrying(Failure(classify_refusal(message) or FailureKind.SERVER, message))

    def _count(self, step: Record) -> None:
        used = Usage(
            tokens_in=count(step, "tokens", "input"),
            tokens_cached=count(step, "tokens", "cache", "read"),
            tokens_cache_write=count(step, "tokens", "cache", "write"),
            tokens_out=count(step, "tokens", "output"),
            tokens_reasoning=count(step, "tokens", "reasoning"),
            turns=1,
        )
        self._usage = msgspec.structs.replace(
            add(self._usage, used),
            cost_nano_usd=sum_costs(self._usage.cost_nano_usd, nano_usd(step, "cost")),
        )


def _retry_reason(line: str) -> str | None:
    """Return why it retries, without the error's name; None for another line."""
    _, _, retry = line.partition(_RETRY)
    _, given, rest = retry.rpartition(_REASON)
    reason, closed, _ = rest.partition('"')
    if not given or not closed:
        return None
    name = _ERROR_NAME.match(reason)
    return reason[name.end() :] if name else reason


def _failure(record: Record) -> Failure:
    data = record_at(record, "error", "data")
    message = shorten(text(data, "message") or text(record, "error", "name"))
    body = text(data, "responseBody")
    status = count(data, "statusCode")
    kind = classify_refusal(f"{message} {body}", status) or FailureKind.CRASH
    return Failure(kind, message, _until(record, data))


def _until(record: Record, data: Record) -> datetime | None:
    """When to retry: `retry-after` seconds after the time of the line."""
    wait = text(data, "responseHeaders", "retry-after")
    at = unix_time({"at": count(record, "timestamp") // 1000}, "at")
    if at is None or not wait.isascii() or not wait.isdigit() or int(wait[:9]) > WAIT_MAX_S:
        return None
    return at + timedelta(seconds=int(wait[:9]))


OPENCODE = Engine(
    name="opencode",
    programs=("opencode",),
    help_argv=("run", "--help"),
    flags=(
        "--format",
        "--print-logs",
        "--log-level",
        "--auto",
        "--model",
        "--session",
    ),
    credentials=(
        "ANTHROPIC_API_KEY",
        "AZURE_API_KEY",
        "AZURE_RESOURCE_NAME",
        "DEEPSEEK_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_GENERATIVE_AI_API_KEY",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "OPENAI_API_KEY",
        "OPENCODE_API_KEY",
        "OPENCODE_CONFIG_CONTENT",
        "OPENROUTER_API_KEY",
        "XAI_API_KEY",
    ),
    repo_settings=("opencode.json", "opencode.jsonc", ".opencode"),
    start=_start,
    reader=OpenCodeReader,
)
"""OpenCode, non-interactive."""
