"""Aider: plain text output, and a log file that alone shows success or failure."""

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
    Retrying,
    Start,
    Text,
    UsageUpdate,
    Work,
)
from gigafactory.engines.protocol.failure import classify_refusal, failure_without_result, shorten
from gigafactory.engines.protocol.json_lines import count, nano_usd, parse_records, record_at, text
from gigafactory.engines.protocol.prompt import prompt_with_persona
from gigafactory.engines.protocol.tail import MessageBuffer, Tail
from gigafactory.engines.protocol.usage_counter import add, sum_costs

PROMPT_FILE = ".gigafactory/prompt.md"
LOG_FILE = ".gigafactory/aider.jsonl"
OPENING_END = "Repo-map:"
"""Prefix of the last line of its start-up banner."""
REQUEST_MAX_S = 600
ERROR_LINES_MAX = 20
THOUSANDS = {"": 1, "k": 10**3, "M": 10**6}

_TOKENS = re.compile(
    r"Tokens: (?P<sent>\d{1,6}(?:\.\d)?)(?P<sent_in>[kM]?) sent.*?"
    r" (?P<got>\d{1,6}(?:\.\d)?)(?P<got_in>[kM]?) received\."
)
_ERROR = re.compile(r"litellm\.\w+: ")
_EXPLAINED = re.compile(r"The API provider")
_NOISE = re.compile(r"HTTPSConnectionPool\(|Warning: Input is not a terminal")


def _start(work: Work) -> Start:
    """Pass the prompt in a file; start with an empty log, because homes are kept across runs."""
    return Start(
        argv=(work.program, *_arguments(work)),
        # Do not wrap long lines; do not download the price list.
        env={
            "COLUMNS": "1000",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "PYTHONUNBUFFERED": "1",
        },
        files={PROMPT_FILE: prompt_with_persona(work).encode(), LOG_FILE: b""},
        side_files=(LOG_FILE,),
    )


def _arguments(work: Work) -> Iterator[str]:
    yield f"--message-file={work.home}/{PROMPT_FILE}"
    # It asks for confirmation of nearly everything; without `yolo`, it must not suggest commands.
    yield "--yes-always"
    if not work.yolo:
        yield "--no-suggest-shell-commands"
    # With streaming, its token counts are only estimates.
    yield from ("--no-pretty", "--no-stream", "--no-fancy-input", f"--timeout={REQUEST_MAX_S}")
    yield from ("--no-auto-commits", "--no-dirty-commits", "--no-gitignore")
    yield from ("--no-check-update", "--no-show-release-notes", "--no-show-model-warnings")
    yield from ("--no-detect-urls", "--no-analytics", f"--analytics-log={work.home}/{LOG_FILE}")
    yield f"--chat-history-file={work.home}/.gigafactory/aider.chat.md"
    yield f"--input-history-file={work.home}/.gigafactory/aider.input"
    if work.model:
        yield f"--model={work.model}"


class AiderReader:
    """Follows one start of Aider."""

    def __init__(self, work: Work) -> None:
        self._opened = False
        self._message = MessageBuffer()
        self._closing = ""
        self._stderr = Tail()
        self._error: list[str] = []
        self._failing = False
        self._usage = Usage(model=work.model)

    def read(self, line: str, *, stderr: bool = False) -> Iterable[EngineEvent]:
        """Return the events of a line."""
        if stderr:
            self._stderr.add(line)
        elif not self._opened:
            self._opened = line.startswith(OPENING_END)
        elif _ERROR.match(line):
            self._error, self._failing = [line.strip()], True
        elif self._failing:
            yield from self._continue_error(line)
        elif match := _TOKENS.match(line):
            self._closing = str(self._message).strip() or self._closing
            self._message.clear()
            self._usage = add(self._usage, _rounded_usage(match))
            yield UsageUpdate(self._usage)
        elif not _NOISE.match(line):
            self._message.add(f"{line}\n")
            if line.strip():
                yield Text(line)

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:
        """Success if the log shows that every message was answered."""
        sent, answered, exited = self._read_log(files.get(LOG_FILE, b""))
        failure = None
        if not sent or not answered or (exit_code < 0 and not exited):
            failure = self._failure() if self._error and exit_code >= 0 else None
            failure = failure or failure_without_result(exit_code, str(self._stderr))
        return EngineVerdict(failure=failure, text=self._closing, usage=self._usage)

    def _read_log(self, log: bytes) -> tuple[bool, bool, bool]:
        """Return whether a message was sent, the last one was answered, and Aider exited."""
        sent = answered = exited = False
        total = msgspec.structs.replace(self._usage, tokens_in=0, tokens_out=0, turns=0)
        cost: int | None = None
        for record in parse_records(log):
            match text(record, "event"):
                case "message_send_starting":
                    sent, answered = True, False
                case "message_send":
                    sent = answered = True
                    figures = record_at(record, "properties")
                    cost = sum_costs(cost, nano_usd(figures, "cost"))
                    used = Usage(
                        tokens_in=count(figures, "prompt_tokens"),
                        tokens_out=count(figures, "completion_tokens"),
                        turns=1,
                    )
                    total = add(total, used)
                case "exit":
                    exited = True
                case _:
                    pass
        if total.turns:
            self._usage = msgspec.structs.replace(total, cost_nano_usd=cost)
        return sent, answered, exited

    def _continue_error(self, line: str) -> Iterator[EngineEvent]:
        """Collect an error message; it ends with a retry notice or an empty line."""
        if line.startswith("Retrying in"):
            self._failing = False
            yield Retrying(self._failure())
        elif not line.strip():
            self._failing = False
        elif not _EXPLAINED.match(line) and len(self._error) < ERROR_LINES_MAX:
            self._error.append(line.strip())

    def _failure(self) -> Failure:
        message = shorten(" ".join(self._error))
        return Failure(classify_refusal(message) or FailureKind.CRASH, message)


def _rounded_usage(match: re.Match[str]) -> Usage:
    return Usage(
        tokens_in=round(float(match["sent"]) * THOUSANDS[match["sent_in"]]),
        tokens_out=round(float(match["got"]) * THOUSANDS[match["got_in"]]),
        turns=1,
    )


AIDER = Engine(
    name="aider",
    programs=("aider",),
    flags=(
        "--message-file",
        "--yes-always",
        "--no-pretty",
        "--no-stream",
        "--no-fancy-input",
        "--no-auto-commits",
        "--no-dirty-commits",
        "--no-check-update",
        "--no-show-release-notes",
        "--no-show-model-warnings",
        "--no-detect-urls",
        "--no-gitignore",
        "--no-analytics",
        "--no-suggest-shell-commands",
        "--analytics-log",
        "--chat-history-file",
        "--input-history-file",
        "--timeout",
        "--model",
    ),
    credentials=(
        "ANTHROPIC_API_KEY",
        "DEEPSEEK_API_KEY",
        "GEMINI_API_KEY",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "OPENAI_API_BASE",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "XAI_API_KEY",
    ),
    repo_settings=(".aider.conf.yml", ".env"),
    start=_start,
    reader=AiderReader,
)
"""Aider, non-interactive."""
