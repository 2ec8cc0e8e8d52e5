"""Qwen Code: lines like Claude Code's, with an exit code and a result that hide API failures."""

import re
from collections.abc import Iterator, Mapping

import msgspec

from gigafactory.domain.job.run import Usage
from gigafactory.engines.protocol.engine import (
    Engine,
    Failure,
    RunEvent,
    Start,
    Trouble,
    Used,
    Verdict,
    Work,
)
from gigafactory.engines.protocol.failure import (
    kind_of,
    shortened,
    signs,
    unfinished,
)
from gigafactory.engines.protocol.json_lines import Record, count, part, parts, text, value
from gigafactory.engines.protocol.line_reader import LineReader
from gigafactory.engines.protocol.prompt import spoken
from gigafactory.engines.protocol.usage_counter import Seen, plus, without

SETTINGS_FILE = ".qwen/settings.json"
CREDENTIALS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")
SETTINGS = msgspec.json.encode(
    {
        # A file of the repo must not say where the model is, and who is asked with our key.
        "advanced": {"excludedEnvVars": ["DEBUG", "DEBUG_MODE", "NODE_OPTIONS", *CREDENTIALS]},
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


def _start(work: Work) -> Start:
    """The prompt through stdin, which it reads when that is no terminal."""
    return Start(
        argv=(work.program, *_arguments(work)),
        stdin=spoken(work).encode(),
        files={SETTINGS_FILE: SETTINGS},
    )


def _arguments(work: Work) -> Iterator[str]:
    yield from ("--output-format=stream-json", "--auth-type=openai")
    yield "--approval-mode=yolo" if work.yolo else "--approval-mode=auto-edit"
    if work.model:
        yield f"--model={work.model}"
    if work.session is not None:
        yield f"--resume={work.session}"
    else:
        yield f"--session-id={work.new_session}"


class QwenReader(LineReader):
    """Follows one start of Qwen Code."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._calls = Seen()
        self._live = Usage(model=work.model)
        self._result: Record | None = None

    def _record(self, found: Record) -> Iterator[RunEvent]:
        match text(found, "type"):
            case "system" if text(found, "subtype") == "init":
                model = text(found, "model") or self._live.model
                self._live = msgspec.structs.replace(self._live, model=model)
                yield from self._named(text(found, "session_id"))
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
            if text(block, "type") == "text":
                yield from self._speak(text(block, "text"))
            elif text(block, "type") == "tool_use":
                yield from self._call(text(block, "name"), text(block, "id"))
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
            share = msgspec.structs.replace(self._live, model=None, turns=0)
            return self._live, plus(before or Usage(), share) if known else None
        usage = msgspec.structs.replace(
            without(total, before if self._work.session else None),
            model=self._live.model,
            turns=count(self._result or {}, "num_turns"),
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
        return Failure(kind_of(message, _SIGNS, int(status[1]) if status else 0), message)


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
"""Qwen Code as it is run without a person."""
