"""Pi: `pi --print --mode json`, which exits 0 even when the model's service has refused."""

import json
import re
from collections.abc import Iterator, Mapping

import msgspec

from gigafactory.domain.job.run import Usage
from gigafactory.engines.protocol.engine import (
    Engine,
    Failure,
    Retrying,
    RunEvent,
    Start,
    Trouble,
    Used,
    Verdict,
    Work,
)
from gigafactory.engines.protocol.failure import refusal, shortened, signs, unfinished
from gigafactory.engines.protocol.json_lines import Record, count, nano_usd, part, parts, text
from gigafactory.engines.protocol.line_reader import LineReader
from gigafactory.engines.protocol.usage_counter import metered, plus

PERSONA_FILE = ".gigafactory/persona.md"
SETTINGS_FILE = ".pi/agent/settings.json"
# Its library would wait in silence for as long as the service says; its own retries are told.
SETTINGS = {"enableInstallTelemetry": False, "retry": {"provider": {"maxRetries": 0}}}
EDITING_TOOLS = "read,edit,write,grep,find,ls"
"""It never asks, so that without the bypass it has no shell."""

_STATUS = re.compile(r"^(\d{3})\b")
_SIGNS = signs(
    (r"No session found", Trouble.UNKNOWN_SESSION),
    (r"No API key|No models available", Trouble.AUTH),
)


def _start(work: Work) -> Start:
    """The prompt through stdin, the persona through a file."""
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
        """The last message of an agent that has ended."""

    def _record(self, found: Record) -> Iterator[RunEvent]:
        match text(found, "type"):
            case "session":
                yield from self._named(text(found, "id"))
            case "agent_start":
                self._last = None
            case "message_end" if text(found, "message", "role") == "assistant":
                yield from self._message(part(found, "message"))
            case "tool_execution_start":
                yield from self._call(text(found, "toolName"))
            case "auto_retry_start":
                yield Retrying(_failure(text(found, "errorMessage")))
            case "agent_end":
                self._last = [{}, *parts(found, "messages")][-1]
            case _:
                pass

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> Verdict:  # noqa: ARG002 - it leaves none
        """The last agent has ended, and not in an error: the exit code is the same for both."""
        return Verdict(
            failure=self._failure(exit_code),
            text=self._said,
            session=self._session,
            usage=self._usage,
        )

    def _failure(self, exit_code: int) -> Failure | None:
        reason = text(self._last or {}, "stopReason")
        if self._last is None or not reason:
            return unfinished(exit_code, str(self._stderr), _SIGNS)
        if reason == "error":
            return _failure(text(self._last, "errorMessage"))
        if reason == "aborted":
            return Failure(Trouble.KILLED, "the agent was interrupted")
        return None

    def _message(self, message: Record) -> Iterator[RunEvent]:
        yield from self._speak("".join(text(piece, "text") for piece in parts(message, "content")))
        if text(message, "stopReason") != "error":
            self._count(message)
            yield Used(self._usage)

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
            plus(self._usage, used),
            model=text(message, "model") or self._usage.model,
            cost_nano_usd=metered(self._usage.cost_nano_usd, cost),
        )


def _failure(said: str) -> Failure:
    message = shortened(said)
    status = _STATUS.match(message)
    kind = refusal(message, int(status[1]) if status else 0) or Trouble.CRASH
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
"""Pi as it is run without a person."""
