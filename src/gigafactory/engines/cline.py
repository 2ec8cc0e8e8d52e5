"""Cline: `cline --json`, a stream of agent events that ends in a `run_result`."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from gigafactory.domain.manifest import EngineClass
from gigafactory.domain.run import Usage
from gigafactory.engines.engine import (
    Failure,
    RunEvent,
    Start,
    Text,
    ToolCall,
    Trouble,
    Used,
    Verdict,
    Work,
)
from gigafactory.engines.jsonlines import Record, count, nano_usd, part, record, text
from gigafactory.engines.prompt import spoken
from gigafactory.engines.services import refusal
from gigafactory.engines.tail import Tail
from gigafactory.engines.tally import Seen, greatest, metered, plus
from gigafactory.engines.trouble import shortened, unfinished

SETTINGS_FILE = ".gigafactory/cline.json"
SETTINGS = {"telemetryOptOut": True, "autoUpdateEnabled": False}
TASK = "Do what the following text asks for."
"""It wants an argument, and puts what comes through stdin behind it."""

_NOISE = re.compile(r"(?:Deprecation)?Warning: AI SDK|\s+at ")


class Cline:
    """Cline as it is run without a person."""

    __slots__ = ()

    name = "cline"
    engine_class: EngineClass | None = "agentic-coder"
    programs: Sequence[str] = ("cline",)
    version_argv: Sequence[str] = ("--version",)
    help_argv: Sequence[str] = ("--help",)
    flags: Sequence[str] = ("--json", "--auto-approve", "--provider", "--model")
    credentials: Sequence[str] = (
        "ANTHROPIC_API_KEY",
        "CLINE_API_KEY",
        "GEMINI_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
    )
    stop_with: Sequence[str] = ("SIGINT",)

    def start(self, work: Work) -> Start:
        """The prompt through stdin, in a new session: it resumes with a person only."""
        return Start(
            argv=(work.program, *_arguments(work)),
            stdin=spoken(work).encode(),
            env={
                "CLINE_GLOBAL_SETTINGS_PATH": f"{work.home}/{SETTINGS_FILE}",
                "CLINE_NO_AUTO_UPDATE": "1",
                # Else every run leaves a process behind that serves the next ones.
                "CLINE_SESSION_BACKEND_MODE": "local",
            },
            files={SETTINGS_FILE: json.dumps(SETTINGS).encode()},
        )

    def reader(self, work: Work) -> "ClineReader":
        """Follows one start."""
        return ClineReader(work)


CLINE = Cline()


def _arguments(work: Work) -> Iterator[str]:
    yield from ("--json", "--auto-approve", "true" if work.yolo else "false")
    provider, _, model = (work.model or "").partition("/")
    if model:
        yield from ("--provider", provider)
    if work.model:
        yield from ("--model", model or provider)
    yield TASK


class ClineReader:
    """Follows one start of Cline."""

    def __init__(self, work: Work) -> None:
        self._said = ""
        self._stderr = Tail()
        self._tools = Seen()
        self._usage = Usage(engine=CLINE.name, model=work.model)
        self._error = ""
        self._result: Record | None = None

    def read(self, line: str, *, stderr: bool = False) -> Iterable[RunEvent]:
        """What a line means."""
        found = record(line)
        if stderr:
            self._hear(text(found, "message") if found is not None else line)
            return
        if found is None:
            return
        match text(found, "type"):
            case "agent_event":
                yield from self._event(part(found, "event"))
            case "run_result":
                self._result = found
                self._finish(found)
                yield Used(self._usage)
            case _:
                pass

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> Verdict:  # noqa: ARG002 - it leaves none
        """The run has a result, and that is completed."""
        return Verdict(
            failure=self._failure(exit_code),
            text=self._said,
            usage=self._usage,
        )

    def _failure(self, exit_code: int) -> Failure | None:
        reason = text(self._result or {}, "finishReason")
        if self._result is None or not reason:
            return unfinished(exit_code, str(self._stderr))
        if reason == "completed":
            return None
        message = shortened(self._error or text(self._result, "text") or reason)
        if reason == "aborted":
            return Failure(Trouble.KILLED, message)
        if reason == "max_iterations":
            return Failure(Trouble.TURN_LIMIT, message)
        return Failure(refusal(message) or Trouble.CRASH, message)

    def _hear(self, line: str) -> None:
        if not _NOISE.match(line):
            self._stderr.add(line)

    def _event(self, event: Record) -> Iterator[RunEvent]:
        kind, content = text(event, "type"), text(event, "contentType")
        if kind == "content_end" and content == "text" and text(event, "text"):
            self._said = text(event, "text")
            yield Text(self._said)
        elif kind == "content_start" and content == "tool":
            if self._tools.first(text(event, "toolCallId")):
                self._usage = plus(self._usage, Usage(tool_calls=1))
                yield ToolCall(text(event, "toolName"))
        elif kind == "usage":
            self._usage = plus(self._usage, _tokens(event, turns=1))
            yield Used(self._usage)
        elif kind == "error":
            self._error = text(event, "error", "message")

    def _finish(self, result: Record) -> None:
        """Take the figures of the end, which hold what helpers of the agent have used too."""
        total = _tokens(part(result, "aggregateUsage"), turns=self._usage.turns)
        self._usage = msgspec.structs.replace(
            greatest(self._usage, total),
            model=text(result, "model", "id") or self._usage.model,
            cost_nano_usd=metered(nano_usd(result, "aggregateUsage", "totalCost")),
        )


def _tokens(figures: Record, *, turns: int) -> Usage:
    cached = count(figures, "cacheReadTokens")
    written = count(figures, "cacheWriteTokens")
    return Usage(
        tokens_in=max(count(figures, "inputTokens") - cached - written, 0),
        tokens_cached=cached,
        tokens_cache_write=written,
        tokens_out=count(figures, "outputTokens"),
        turns=turns,
    )
