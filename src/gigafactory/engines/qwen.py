"""Qwen Code: lines like Claude Code's, with an exit code and a result that hide API failures."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from gigafactory.domain.manifest import EngineClass
from gigafactory.domain.run import Usage
from gigafactory.engines.engine import (
    Failure,
    RunEvent,
    Session,
    Start,
    Text,
    ToolCall,
    Trouble,
    Used,
    Verdict,
    Work,
)
from gigafactory.engines.jsonlines import Record, count, part, parts, record, text, value
from gigafactory.engines.prompt import spoken
from gigafactory.engines.tail import Tail
from gigafactory.engines.tally import Seen, plus, without
from gigafactory.engines.trouble import (
    API_SIGNS,
    of_status,
    of_words,
    shortened,
    signs,
    unfinished,
)

SETTINGS_FILE = ".qwen/settings.json"
SETTINGS = msgspec.json.encode(
    {
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        # It waits a minute and more before each of its retries, ten of them if it is not told.
        "model": {"generationConfig": {"maxRetries": 1}},
    }
)

API_ERROR = "[API Error:"
TURN_LIMIT_EXIT = 53

_STATUS = re.compile(r"\[API Error:\s*(\d{3})\b")
_SIGNS = signs(
    (r"usage limit|free (?:daily )?quota", Trouble.ALLOWANCE),
    (r"exceeded your current quota|billing|insufficient (?:balance|quota)", Trouble.BILLING),
    (r"overloaded", Trouble.OVERLOADED),
    (r"Missing API key|Incorrect API key|No auth type", Trouble.AUTH),
    (r"max session turns", Trouble.TURN_LIMIT),
    (r"No saved session found", Trouble.UNKNOWN_SESSION),
)


class Qwen:
    """Qwen Code as it is run without a person."""

    __slots__ = ()

    name = "qwen"
    engine_class: EngineClass | None = "agentic-coder"
    programs: Sequence[str] = ("qwen",)
    version_argv: Sequence[str] = ("--version",)
    help_argv: Sequence[str] = ("--help",)
    flags: Sequence[str] = (
        "--output-format",
        "--approval-mode",
        "--auth-type",
        "--model",
        "--session-id",
        "--resume",
    )
    credentials: Sequence[str] = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")
    stop_with: Sequence[str] = ()

    def start(self, work: Work) -> Start:
        """The prompt through stdin, which it reads when that is no terminal."""
        return Start(
            argv=(work.program, *_arguments(work)),
            stdin=spoken(work).encode(),
            files={SETTINGS_FILE: SETTINGS},
        )

    def reader(self, work: Work) -> "QwenReader":
        """Follows one start."""
        return QwenReader(work)


QWEN = Qwen()


def _arguments(work: Work) -> Iterator[str]:
    yield from ("--output-format=stream-json", "--auth-type=openai")
    yield "--approval-mode=yolo" if work.yolo else "--approval-mode=auto-edit"
    if work.model:
        yield f"--model={work.model}"
    if work.session is not None:
        yield f"--resume={work.session}"
    else:
        yield f"--session-id={work.new_session}"


class QwenReader:
    """Follows one start of Qwen Code."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._session: str | None = None
        self._said = ""
        self._stderr = Tail()
        self._tools = Seen()
        self._calls = Seen()
        self._live = Usage(engine=QWEN.name, model=work.model)
        self._result: Record | None = None

    def read(self, line: str, *, stderr: bool = False) -> Iterable[RunEvent]:
        """What a line means."""
        if stderr:
            self._stderr.add(line)
            return
        found = record(line)
        if found is None:
            return
        match text(found, "type"):
            case "system" if text(found, "subtype") == "init":
                model = text(found, "model") or self._live.model
                self._live = msgspec.structs.replace(self._live, model=model)
                self._session = text(found, "session_id") or None
                if self._session:
                    yield Session(self._session)
            case "assistant":
                yield from self._assistant(part(found, "message"))
            case "result":
                self._result = found
            case _:
                pass

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> Verdict:  # noqa: ARG002 - it leaves none
        """A result that is no error, and does not begin like one."""
        usage, session_usage = self._used()
        return Verdict(
            failure=self._failure(exit_code),
            text=text(self._result or {}, "result") or self._said,
            session=self._session,
            usage=usage,
            session_usage=session_usage,
        )

    def _assistant(self, message: Record) -> Iterator[RunEvent]:
        for block in parts(message, "content"):
            if text(block, "type") == "text" and text(block, "text"):
                self._said = text(block, "text")
                yield Text(self._said)
            elif text(block, "type") == "tool_use" and self._tools.first(text(block, "id")):
                self._live = plus(self._live, Usage(tool_calls=1))
                yield ToolCall(text(block, "name"))
        used = _tokens(part(message, "usage"))
        if used != Usage() and self._calls.first(text(message, "id")):
            self._live = plus(self._live, msgspec.structs.replace(used, turns=1))
            yield Used(self._live)

    def _used(self) -> tuple[Usage, Usage | None]:
        """This start's share of a result that counts the session; else the sum of its calls."""
        before = self._work.session_usage
        known = self._work.session is None or before is not None
        total = _tokens(part(self._result or {}, "usage"))
        if not known or total == Usage():
            share = msgspec.structs.replace(
                self._live, engine=None, model=None, turns=0, tool_calls=0
            )
            return self._live, plus(before or Usage(), share) if known else None
        usage = msgspec.structs.replace(
            without(total, before if self._work.session else None),
            engine=QWEN.name,
            model=self._live.model,
            turns=count(self._result or {}, "num_turns"),
            tool_calls=self._live.tool_calls,
        )
        return usage, total

    def _failure(self, exit_code: int) -> Failure | None:
        if self._result is None:
            failure = unfinished(exit_code, str(self._stderr), _SIGNS)
            if exit_code == TURN_LIMIT_EXIT:
                return Failure(Trouble.TURN_LIMIT, failure.message)
            return failure
        said = text(self._result, "result")
        if value(self._result, "is_error") is False and not said.startswith(API_ERROR):
            return None
        message = shortened(text(self._result, "error", "message") or said)
        status = _STATUS.search(message)
        kind = (
            of_words(message, _SIGNS)
            or (of_status(int(status[1])) if status else None)
            or of_words(message, API_SIGNS)
            or Trouble.CRASH
        )
        return Failure(kind, message)


def _tokens(usage: Record) -> Usage:
    cached = count(usage, "cache_read_input_tokens")
    return Usage(
        tokens_in=max(count(usage, "input_tokens") - cached, 0),
        tokens_cached=cached,
        tokens_out=count(usage, "output_tokens"),
    )
