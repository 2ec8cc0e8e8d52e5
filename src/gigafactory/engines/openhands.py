"""OpenHands: `openhands --headless --json`, JSON lines amid chatter, figures in a side file."""

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from gigafactory.domain.job.run import Usage
from gigafactory.engines.protocol.engine import (
    Engine,
    Failure,
    Retrying,
    RunEvent,
    Start,
    Trouble,
    Verdict,
    Work,
)
from gigafactory.engines.protocol.failure import of_words, refusal, shortened, signs, unfinished
from gigafactory.engines.protocol.json_lines import (
    Record,
    count,
    nano_usd,
    part,
    parts,
    record,
    text,
)
from gigafactory.engines.protocol.line_reader import LineReader
from gigafactory.engines.protocol.prompt import spoken
from gigafactory.engines.protocol.usage_counter import metered, plus, without

PROMPT_FILE = ".gigafactory/prompt.md"
STATE_FILES = ".openhands/conversations/*/base_state.json"
SOCKET_PATH_MAX = 100
TASK = "Do what this file asks for."
"""It gives the file to the model without a word about what to do with it."""
FINISH = "finish"
"""The tool by which the model says that it is done."""

_NAMED = re.compile(r"Conversation ID: ([0-9a-f]{32})\b")
# Wrapped over many lines: only the first, with the kind of the error, is sure to be whole.
_RETRY = re.compile(r"\blitellm\.(\w+Error|Timeout)\b")
_SIGNS = signs(
    (r"Missing required environment variable|LLM_API_KEY", Trouble.AUTH),
    (r"MaxIterations|maximum iterations", Trouble.TURN_LIMIT),
    (r"conversation .*(?:not found|does not exist)", Trouble.UNKNOWN_SESSION),
)


def _start(work: Work) -> Start:
    """The prompt through a file; without a person it always approves, bypass or not."""
    return Start(
        argv=(work.program, *_arguments(work)),
        env={
            "COLUMNS": "1000",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OPENHANDS_SUPPRESS_BANNER": "1",
            "PYTHONUNBUFFERED": "1",
            **({"LLM_MODEL": work.model} if work.model else {}),
            **_own_terminals(work.home),
        },
        files={PROMPT_FILE: f"{TASK}\n\n{spoken(work)}".encode()},
        side_files=(STATE_FILES,),
    )


def _own_terminals(home: str) -> dict[str, str]:
    """Keep the terminals of this job apart: else all of a user share one server of them."""
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
        self._asked = ""
        self._acted = False
        self._error: Failure | None = None

    def _record(self, found: Record) -> Iterator[RunEvent]:
        match text(found, "kind"):
            case "MessageEvent" if text(found, "source") == "agent":
                self._acted = True
                yield from self._speak(_joined(parts(found, "llm_message", "content")))
            case "ActionEvent":
                self._acted = True
                yield from self._speak(_joined(parts(found, "thought")))
                yield from self._act(found)
            case "MessageEvent":
                self._asked = text(found, "id")
            case "ConversationErrorEvent":
                self._error = _failure(found)
            case _:
                pass

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> Verdict:
        """No error was told, and the file of the conversation says that it is finished."""
        state = self._state(files)
        total = _total(state)
        usage = msgspec.structs.replace(
            without(total, self._work.session_usage),
            model=total.model or self._work.model,
        )
        return Verdict(
            failure=self._failure(exit_code, text(state, "execution_status")),
            text=self._said,
            session=self._session or text(state, "id") or None,
            usage=usage,
            session_usage=total if state else None,
        )

    def _failure(self, exit_code: int, status: str) -> Failure | None:
        if self._error is not None:
            return self._error
        # A session that goes on was finished before: only what it does now makes that its own.
        if status == "finished" and self._acted:
            return None
        if status in {"error", "stuck"}:
            return Failure(Trouble.CRASH, f"the conversation ended as {status}")
        return unfinished(exit_code, str(self._stderr), _SIGNS)

    def _state(self, files: Mapping[str, bytes]) -> Record:
        """The file of this conversation: earlier ones of the job lie beside it.

        It is named at its end only; one that was stopped before is known by what it was asked.
        """
        named = (self._session or self._work.session or "").replace("-", "")
        for data in files.values():
            state = record(data) or {}
            asked = text(state, "last_user_message_id")
            if (named and text(state, "id").replace("-", "") == named) or (
                not named and asked and asked == self._asked
            ):
                return state
        return {}

    def _complaint(self, line: str) -> Iterator[RunEvent]:
        self._stderr.add(line)
        if found := _RETRY.search(line):
            yield Retrying(Failure(refusal(found[1]) or Trouble.SERVER, found[1]))

    def _words(self, line: str) -> Iterator[RunEvent]:
        # Its chatter is all that tells of a failure to begin.
        self._stderr.add(line)
        if found := _NAMED.search(line):
            yield from self._named(found[1])

    def _act(self, found: Record) -> Iterator[RunEvent]:
        if text(found, "tool_name") == FINISH:
            yield from self._speak(text(found, "action", "message"))
        else:
            yield from self._call(text(found, "tool_name"))


def _joined(pieces: Sequence[Record]) -> str:
    return "".join(text(piece, "text") for piece in pieces)


def _failure(found: Record) -> Failure:
    code, detail = text(found, "code"), text(found, "detail")
    message = shortened(detail or code)
    known = f"{code} {detail}"
    return Failure(of_words(known, _SIGNS) or refusal(known) or Trouble.CRASH, message)


def _total(state: Record) -> Usage:
    """What the whole conversation has used, its helpers included."""
    metrics = part(state, "stats", "usage_to_metrics")
    total = Usage(model=text(metrics, "agent", "model_name") or None)
    cost: int | None = None
    for use in metrics:
        used = part(metrics, use, "accumulated_token_usage")
        cached, written = count(used, "cache_read_tokens"), count(used, "cache_write_tokens")
        cost = metered(cost, nano_usd(metrics, use, "accumulated_cost"))
        tokens = Usage(
            tokens_in=max(count(used, "prompt_tokens") - cached - written, 0),
            tokens_cached=cached,
            tokens_cache_write=written,
            tokens_out=count(used, "completion_tokens"),
            tokens_reasoning=count(used, "reasoning_tokens"),
            turns=len(parts(metrics, use, "token_usages")),
        )
        total = plus(total, tokens)
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
"""OpenHands as it is run without a person."""
