"""OpenHands: `openhands --headless --json`; JSON lines mixed with text, usage in a side file."""

import re
from collections.abc import Iterator, Mapping, Sequence

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
    Work,
)
from gigafactory.engines.protocol.failure import (
    classify_refusal,
    failure_patterns,
    failure_without_result,
    kind_of_message,
    shorten,
)
from gigafactory.engines.protocol.json_lines import (
    Record,
    count,
    nano_usd,
    parse_record,
    record_at,
    records_at,
    text,
)
from gigafactory.engines.protocol.line_reader import LineReader
from gigafactory.engines.protocol.prompt import prompt_with_persona
from gigafactory.engines.protocol.usage_counter import add, subtract, sum_costs

PROMPT_FILE = ".gigafactory/prompt.md"
STATE_FILES = ".openhands/conversations/*/base_state.json"
SOCKET_PATH_MAX = 100
TASK = "Do what this file asks for."
"""It passes the file to the model without an instruction."""
FINISH = "finish"
"""The tool by which the model reports that it is done."""

_NAMED = re.compile(r"Conversation ID: ([0-9a-f]{32})\b")
# The message is wrapped: only its first line, with the error class, is complete.
_RETRY = re.compile(r"\blitellm\.(\w+Error|Timeout)\b")
_PATTERNS = failure_patterns(
    (r"Missing required environment variable|LLM_API_KEY", FailureKind.AUTH),
    (r"MaxIterations|maximum iterations", FailureKind.TURN_LIMIT),
    (r"conversation .{0,200}(?:not found|does not exist)", FailureKind.UNKNOWN_SESSION),
)


def _start(work: Work) -> Start:
    """Pass the prompt in a file; headless mode always approves all actions."""
    return Start(
        argv=(work.program, *_arguments(work)),
        env={
            "COLUMNS": "1000",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OPENHANDS_SUPPRESS_BANNER": "1",
            "PYTHONUNBUFFERED": "1",
            **({"LLM_MODEL": work.model} if work.model else {}),
            **_private_tmux(work.home),
        },
        files={PROMPT_FILE: f"{TASK}\n\n{prompt_with_persona(work)}".encode()},
        side_files=(STATE_FILES,),
    )


def _private_tmux(home: str) -> dict[str, str]:
    """Separate the tmux server of this job: by default all jobs of a user share one."""
    socket = f"{home}/tmux-4294967295/openhands"
    return {"TMUX_TMPDIR": home} if len(socket.encode()) <= SOCKET_PATH_MAX else {}


def _arguments(work: Work) -> Iterator[str]:
    yield from ("--headless", "--json", "--override-with-envs")
    yield f"--file={work.home}/{PROMPT_FILE}"
    if work.session is not None:
        yield f"--resume={work.session}"


class OpenHandsReader(LineReader):
    """Follows one start of OpenHands."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._user_message_id = ""
        self._has_acted = False
        self._error: Failure | None = None

    def _record(self, record: Record) -> Iterator[EngineEvent]:
        match text(record, "kind"):
            case "MessageEvent" if text(record, "source") == "agent":
                self._has_acted = True
                yield from self._speak(_join_text(records_at(record, "llm_message", "content")))
            case "ActionEvent":
                self._has_acted = True
                yield from self._speak(_join_text(records_at(record, "thought")))
                yield from self._action(record)
            case "MessageEvent":
                self._user_message_id = text(record, "id")
            case "ConversationErrorEvent":
                self._error = _failure(record)
            case _:
                pass

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:
        """Success if no error was reported and the conversation file says `finished`."""
        state = self._state(files)
        total = _total(state)
        usage = msgspec.structs.replace(
            subtract(total, self._work.session_usage),
            model=total.model or self._work.model,
        )
        return EngineVerdict(
            failure=self._failure(exit_code, text(state, "execution_status")),
            text=self._last_text,
            session=self._session or text(state, "id") or None,
            usage=usage,
            session_usage=total if state else None,
        )

    def _failure(self, exit_code: int, status: str) -> Failure | None:
        if self._error is not None:
            return self._error
        # A resumed session was finished before: require an action in this start.
        if status == "finished" and self._has_acted:
            return None
        if status in {"error", "stuck"}:
            return Failure(FailureKind.CRASH, f"the conversation ended as {status}")
        return failure_without_result(exit_code, str(self._stderr), _PATTERNS)

    def _state(self, files: Mapping[str, bytes]) -> Record:
        """Return the state file of this conversation, not of earlier ones.

        Its id is printed only at the end; before that, the id of the user message identifies it.
        """
        named = (self._session or self._work.session or "").replace("-", "")
        for data in files.values():
            state = parse_record(data) or {}
            last_message_id = text(state, "last_user_message_id")
            if (named and text(state, "id").replace("-", "") == named) or (
                not named and last_message_id and last_message_id == self._user_message_id
            ):
                return state
        return {}

    def _stderr_line(self, line: str) -> Iterator[EngineEvent]:
        self._stderr.add(line)
        if match := _RETRY.search(line):
            yield Retrying(Failure(classify_refusal(match[1]) or FailureKind.SERVER, match[1]))

    def _text_line(self, line: str) -> Iterator[EngineEvent]:
        # Plain text is the only sign of a failed start.
        self._stderr.add(line)
        if match := _NAMED.search(line):
            yield from self._set_session(match[1])

    def _action(self, record: Record) -> Iterator[EngineEvent]:
        if text(record, "tool_name") == FINISH:
            yield from self._speak(text(record, "action", "message"))
        else:
            yield from self._tool_call(text(record, "tool_name"))


def _join_text(pieces: Sequence[Record]) -> str:
    return "".join(text(piece, "text") for piece in pieces)


def _failure(record: Record) -> Failure:
    code, detail = text(record, "code"), text(record, "detail")
    message = shorten(detail or code)
    error_text = f"{code} {detail}"
    return Failure(
        kind_of_message(error_text, _PATTERNS) or classify_refusal(error_text) or FailureKind.CRASH,
        message,
    )


def _total(state: Record) -> Usage:
    """Usage of the whole conversation, including subagents."""
    metrics = record_at(state, "stats", "usage_to_metrics")
    total = Usage(model=text(metrics, "agent", "model_name") or None)
    cost: int | None = None
    for use in metrics:
        used = record_at(metrics, use, "accumulated_token_usage")
        cached, written = count(used, "cache_read_tokens"), count(used, "cache_write_tokens")
        cost = sum_costs(cost, nano_usd(metrics, use, "accumulated_cost"))
        tokens = Usage(
            tokens_in=max(count(used, "prompt_tokens") - cached - written, 0),
            tokens_cached=cached,
            tokens_cache_write=written,
            tokens_out=count(used, "completion_tokens"),
            tokens_reasoning=count(used, "reasoning_tokens"),
            turns=len(records_at(metrics, use, "token_usages")),
        )
        total = add(total, tokens)
    return msgspec.structs.replace(total, cost_nano_usd=cost)


OPENHANDS = Engine(
    name="openhands",
    programs=("openhands",),
    flags=("--headless", "--json", "--override-with-envs", "--file", "--resume"),
    credentials=("LLM_API_KEY", "LLM_BASE_URL", "LLM_MODEL"),
    repo_settings=(".openhands",),
    start=_start,
    reader=OpenHandsReader,
)
"""OpenHands, non-interactive."""
