"""Cline: `cline --json`, a stream of agent events that ends in a `run_result`."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gigafactory.domain.job.run import Usage
from gigafactory.engines.protocol.engine import (
    Engine,
    EngineEvent,
    EngineVerdict,
    Failure,
    FailureKind,
    Start,
    UsageUpdate,
    Work,
)
from gigafactory.engines.protocol.failure import classify_refusal, failure_without_result, shorten
from gigafactory.engines.protocol.json_lines import (
    Record,
    count,
    nano_usd,
    parse_record,
    record_at,
    text,
)
from gigafactory.engines.protocol.line_reader import LineReader
from gigafactory.engines.protocol.prompt import prompt_with_persona
from gigafactory.engines.protocol.usage_counter import add, maximum, sum_costs

SETTINGS_FILE = ".gigafactory/cline.json"
SETTINGS = {"telemetryOptOut": True, "autoUpdateEnabled": False}
TASK = "Do what the following text asks for."
"""It requires an argument, and appends stdin to it."""

_NOISE = re.compile(r"(?:Deprecation)?Warning: AI SDK|\s+at ")


def _start(work: Work) -> Start:
    """Pass the prompt through stdin in a new session: only interactive sessions can be resumed."""
    return Start(
        argv=(work.program, *_arguments(work)),
        stdin=prompt_with_persona(work).encode(),
        env={
            "CLINE_GLOBAL_SETTINGS_PATH": f"{work.home}/{SETTINGS_FILE}",
            "CLINE_NO_AUTO_UPDATE": "1",
            # Otherwise every run leaves a background process for the next ones.
            "CLINE_SESSION_BACKEND_MODE": "local",
        },
        files={SETTINGS_FILE: json.dumps(SETTINGS).encode()},
    )


def _arguments(work: Work) -> Iterator[str]:
    yield from ("--json", "--auto-approve", "true" if work.yolo else "false")
    provider, _, model = (work.model or "").partition("/")
    if model:
        yield from ("--provider", provider)
    if work.model:
        yield from ("--model", model or provider)
    yield TASK


class ClineReader(LineReader):
    """Follows one start of Cline."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._usage = Usage(model=work.model)
        self._error = ""
        self._result: Record | None = None

    def _record(self, record: Record) -> Iterator[EngineEvent]:
        match text(record, "type"):
            case "agent_event":
                yield from self._event(record_at(record, "event"))
            case "run_result":
                self._result = record
                self._finish(record)
                yield UsageUpdate(self._usage)
            case _:
                pass

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:  # noqa: ARG002 - it leaves none
        """Success if the run has a result with the reason `completed`."""
        return EngineVerdict(
            failure=self._failure(exit_code),
            text=self._last_text,
            usage=self._usage,
        )

    def _failure(self, exit_code: int) -> Failure | None:
        reason = text(self._result or {}, "finishReason")
        if self._result is None or not reason:
            return failure_without_result(exit_code, str(self._stderr))
        if reason == "completed":
            return None
        message = shorten(self._error or text(self._result, "text") or reason)
        if reason == "aborted":
            return Failure(FailureKind.KILLED, message)
        if reason == "max_iterations":
            return Failure(FailureKind.TURN_LIMIT, message)
        return Failure(classify_refusal(message) or FailureKind.CRASH, message)

    def _stderr_line(self, line: str) -> Iterable[EngineEvent]:
        """Keep messages, plain or as JSON records, without warnings of its libraries."""
        record = parse_record(line)
        message = line if record is None else text(record, "message")
        if not _NOISE.match(message):
            self._stderr.add(message)
        return ()

    def _event(self, event: Record) -> Iterator[EngineEvent]:
        kind, content = text(event, "type"), text(event, "contentType")
        if kind == "content_end" and content == "text":
            yield from self._speak(text(event, "text"))
        elif kind == "content_start" and content == "tool":
            yield from self._tool_call(text(event, "toolName"), text(event, "toolCallId"))
        elif kind == "usage":
            self._usage = add(self._usage, _tokens(event, turns=1))
            yield UsageUpdate(self._usage)
        elif kind == "error":
            self._error = text(event, "error", "message")

    def _finish(self, result: Record) -> None:
        """Take the final figures, which include the usage of subagents."""
        total = _tokens(record_at(result, "aggregateUsage"), turns=self._usage.turns)
        self._usage = msgspec.structs.replace(
            maximum(self._usage, total),
            model=text(result, "model", "id") or self._usage.model,
            cost_nano_usd=sum_costs(nano_usd(result, "aggregateUsage", "totalCost")),
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


CLINE = Engine(
    name="cline",
    programs=("cline",),
    flags=("--json", "--auto-approve", "--provider", "--model"),
    credentials=(
        "ANTHROPIC_API_KEY",
        "CLINE_API_KEY",
        "GEMINI_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
    ),
    stop_signals=("SIGINT",),
    repo_settings=(".cline", ".clinerules/hooks"),
    start=_start,
    reader=ClineReader,
)
"""Cline, non-interactive."""
