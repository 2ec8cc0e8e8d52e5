"""Pi: `pi --print --mode json`, which exits 0 even if the model API refused."""

import json
import re
from collections.abc import Iterator, Mapping

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
    records_at,
    text,
)
from gigafactory.engines.protocol.line_reader import LineReader
from gigafactory.engines.protocol.usage_counter import add, sum_costs

PERSONA_FILE = ".gigafactory/persona.md"
SETTINGS_FILE = ".pi/agent/settings.json"
# Its HTTP library would wait silently for as long as the API says; Pi reports its own retries.
SETTINGS = {"enableInstallTelemetry": False, "retry": {"provider": {"maxRetries": 0}}}
EDITING_TOOLS = "read,edit,write,grep,find,ls"
"""It never asks for permission, so without `yolo` it gets no shell."""

_STATUS = re.compile(r"^(\d{3})\b")
_PATTERNS = failure_patterns(
    (r"No session found", FailureKind.UNKNOWN_SESSION),
    (r"No API key|No models available", FailureKind.AUTH),
)


def _start(work: Work) -> Start:
    """Pass the prompt through stdin, and the persona in a file."""
    return Start(
        argv=(work.program, *_arguments(work)),
        stdin=work.prompt.encode(),
        env={"PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
        files={
            SETTINGS_FILE: json.dumps(SETTINGS).encode(),
            **({PERSONA_FILE: work.persona.encode()} if work.persona else {}),
        },
    )


def _arguments(work: Work) -> Iterator[str]:
    yield from ("--print", "--mode", "json")
    if not work.yolo:
        yield from ("--tools", EDITING_TOOLS)
    if work.model:
        yield from ("--model", work.model)
    if work.session is not None:
        yield from ("--session", work.session)
    if work.persona:
        yield from ("--append-system-prompt", f"{work.home}/{PERSONA_FILE}")


class PiReader(LineReader):
    """Follows one start of Pi."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._usage = Usage(model=work.model)
        self._last: Record | None = None
        """The last message of an agent that ended."""

    def _record(self, record: Record) -> Iterator[EngineEvent]:
        match text(record, "type"):
            case "session":
                yield from self._set_session(text(record, "id"))
            case "agent_start":
                self._last = None
            case "message_end" if text(record, "message", "role") == "assistant":
                yield from self._message(record_at(record, "message"))
            case "tool_execution_start":
                yield from self._tool_call(text(record, "toolName"))
            case "auto_retry_start":
                yield Retrying(_failure(text(record, "errorMessage")))
            case "agent_end":
                self._last = [{}, *records_at(record, "messages")][-1]
            case _:
                pass

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:  # noqa: ARG002 - it leaves none
        """Success if the last agent ended without an error; the exit code does not tell."""
        return EngineVerdict(
            failure=self._failure(exit_code),
            text=self._last_text,
            session=self._session,
            usage=self._usage,
        )

    def _failure(self, exit_code: int) -> Failure | None:
        reason = text(self._last or {}, "stopReason")
        if self._last is None or not reason:
            return failure_without_result(exit_code, str(self._stderr), _PATTERNS)
        if reason == "error":
            return _failure(text(self._last, "errorMessage"))
        if reason == "aborted":
            return Failure(FailureKind.KILLED, "the agent was interrupted")
        return None

    def _message(self, message: Record) -> Iterator[EngineEvent]:
        yield from self._speak(
            "".join(text(piece, "text") for piece in records_at(message, "content"))
        )
        if text(message, "stopReason") != "error":
            self._count(message)
            yield UsageUpdate(self._usage)

    def _count(self, message: Record) -> None:
        used = Usage(
            tokens_in=count(message, "usage", "input"),
            tokens_cached=count(message, "usage", "cacheRead"),
            tokens_cache_write=count(message, "usage", "cacheWrite"),
            tokens_out=count(message, "usage", "output"),
            turns=1,
        )
        cost = nano_usd(message, "usage", "cost", "total")
        self._usage = msgspec.structs.replace(
            add(self._usage, used),
            model=text(message, "model") or self._usage.model,
            cost_nano_usd=sum_costs(self._usage.cost_nano_usd, cost),
        )


def _failure(error_text: str) -> Failure:
    message = shorten(error_text)
    status = _STATUS.match(message)
    kind = classify_refusal(message, int(status[1]) if status else 0) or FailureKind.CRASH
    return Failure(kind, message)


PI = Engine(
    name="pi",
    programs=("pi",),
    flags=(
        "--print",
        "--mode",
        "--tools",
        "--model",
        "--session",
        "--append-system-prompt",
    ),
    credentials=(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_OAUTH_TOKEN",
        "AZURE_OPENAI_API_KEY",
        "AZURE_OPENAI_BASE_URL",
        "DEEPSEEK_API_KEY",
        "GEMINI_API_KEY",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "XAI_API_KEY",
    ),
    repo_settings=(".pi",),
    start=_start,
    reader=PiReader,
)
"""Pi, non-interactive."""
