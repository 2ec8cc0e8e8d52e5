"""Qwen Code: lines like those of Claude Code; exit code and result hide API failures."""

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
    record_at,
    records_at,
    text,
    value,
)
from gigafactory.engines.protocol.line_reader import LineReader
from gigafactory.engines.protocol.prompt import prompt_with_persona
from gigafactory.engines.protocol.usage_counter import SeenIds, add, subtract

SETTINGS_FILE = ".qwen/settings.json"
CREDENTIALS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")
SETTINGS = msgspec.json.encode(
    {
        # A file of the repo must not redirect requests with our API key.
        "advanced": {"excludedEnvVars": ["DEBUG", "DEBUG_MODE", "NODE_OPTIONS", *CREDENTIALS]},
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        # By default it retries ten times, and waits more than a minute each time.
        "model": {"generationConfig": {"maxRetries": 1}},
    }
)

API_ERROR = "[API Error:"
TURN_LIMIT_EXIT = 53

_STATUS = re.compile(r"\[API Error:\s*(\d{3})\b")
_PATTERNS = failure_patterns(
    (r"usage limit|free (?:daily )?quota", FailureKind.ALLOWANCE),
    (r"exceeded your current quota|billing|insufficient (?:balance|quota)", FailureKind.BILLING),
    (r"overloaded", FailureKind.OVERLOADED),
    (r"Missing API key|Incorrect API key|No auth type", FailureKind.AUTH),
    (r"max session turns", FailureKind.TURN_LIMIT),
    (r"No saved session found", FailureKind.UNKNOWN_SESSION),
)


def _start(work: Work) -> Start:
    """Pass the prompt through stdin, which it reads if that is not a terminal."""
    return Start(
        argv=(work.program, *_arguments(work)),
        stdin=prompt_with_persona(work).encode(),
        files={SETTINGS_FILE: SETTINGS},
    )


def _arguments(work: Work) -> Iterator[str]:
    yield from ("--output-format=stream-json", "--auth-type=openai")
    yield "--approval-mode=yolo" if work.yolo else "--approval-mode=auto-edit"
    yield from session_arguments(work)


class QwenReader(LineReader):
    """Follows one start of Qwen Code."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._calls = SeenIds()
        self._live = Usage(model=work.model)
        self._result: Record | None = None

    def _record(self, record: Record) -> Iterator[EngineEvent]:
        match text(record, "type"):
            case "system" if text(record, "subtype") == "init":
                model = text(record, "model") or self._live.model
                self._live = msgspec.structs.replace(self._live, model=model)
                yield from self._set_session(text(record, "session_id"))
            case "assistant":
                yield from self._assistant(record_at(record, "message"))
            case "result":
                self._result = record
            case _:
                pass

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:  # noqa: ARG002 - it leaves none
        """Success if the result is not an error and does not start like one."""
        usage, session_usage = self._used()
        return EngineVerdict(
            failure=self._failure(exit_code),
            text=text(self._result or {}, "result") or self._last_text,
            session=self._session,
            usage=usage,
            session_usage=session_usage,
        )

    def _assistant(self, message: Record) -> Iterator[EngineEvent]:
        for block in records_at(message, "content"):
            if text(block, "type") == "text":
                yield from self._speak(text(block, "text"))
            elif text(block, "type") == "tool_use":
                yield from self._tool_call(text(block, "name"), text(block, "id"))
        used = _tokens(record_at(message, "usage"))
        if used != Usage() and self._calls.is_new(text(message, "id")):
            self._live = add(self._live, msgspec.structs.replace(used, turns=1))
            yield UsageUpdate(self._live)

    def _used(self) -> tuple[Usage, Usage | None]:
        """Usage of this start: from the session total if known, else the sum of its calls."""
        before = self._work.session_usage
        known = self._work.session is None or before is not None
        total = _tokens(record_at(self._result or {}, "usage"))
        if not known or total == Usage():
            share = msgspec.structs.replace(self._live, model=None, turns=0)
            return self._live, add(before or Usage(), share) if known else None
        usage = msgspec.structs.replace(
            subtract(total, before if self._work.session else None),
            model=self._live.model,
            turns=count(self._result or {}, "num_turns"),
        )
        return usage, total

    def _failure(self, exit_code: int) -> Failure | None:
        if self._result is None:
            failure = failure_without_result(exit_code, str(self._stderr), _PATTERNS)
            if exit_code == TURN_LIMIT_EXIT:
                return Failure(FailureKind.TURN_LIMIT, failure.message)
            return failure
        error_text = text(self._result, "result")
        if value(self._result, "is_error") is False and not error_text.startswith(API_ERROR):
            return None
        message = shorten(text(self._result, "error", "message") or error_text)
        status = _STATUS.search(message)
        return Failure(classify(message, _PATTERNS, int(status[1]) if status else 0), message)


def _tokens(usage: Record) -> Usage:
    cached = count(usage, "cache_read_input_tokens")
    return Usage(
        tokens_in=max(count(usage, "input_tokens") - cached, 0),
        tokens_cached=cached,
        tokens_out=count(usage, "output_tokens"),
    )


QWEN = Engine(
    name="qwen",
    programs=("qwen",),
    flags=(
        "--output-format",
        "--approval-mode",
        "--auth-type",
        "--model",
        "--session-id",
        "--resume",
    ),
    credentials=CREDENTIALS,
    repo_settings=(".qwen",),
    start=_start,
    reader=QwenReader,
)
"""Qwen Code, non-interactive."""
