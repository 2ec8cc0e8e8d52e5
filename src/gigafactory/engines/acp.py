"""Any agent that speaks the Agent Client Protocol: JSON-RPC lines over stdin and stdout."""

import shlex
from collections.abc import Iterator, Mapping
from functools import partial

import msgspec

from gigafactory.domain.job.run import OTHER_TOOLS, Usage
from gigafactory.engines.protocol.engine import (
    Engine,
    EngineEvent,
    EngineVerdict,
    Failure,
    FailureKind,
    SendInput,
    SessionStarted,
    Start,
    Text,
    ToolCall,
    UsageUpdate,
    Work,
)
from gigafactory.engines.protocol.failure import (
    API_PATTERNS,
    failure_patterns,
    failure_without_result,
    kind_of_message,
    shorten,
)
from gigafactory.engines.protocol.json_lines import (
    Record,
    count,
    flag,
    nano_usd,
    record_at,
    records_at,
    text,
    value,
)
from gigafactory.engines.protocol.line_reader import LineReader
from gigafactory.engines.protocol.prompt import prompt_with_persona
from gigafactory.engines.protocol.tail import MessageBuffer
from gigafactory.engines.protocol.usage_counter import SEEN_MAX, add, subtract

PROTOCOL_VERSION = 1
INITIALIZE, SESSION, MODEL, PROMPT = 1, 2, 3, 4
"""Ids of our requests, in the order in which they are sent."""

AUTH_REQUIRED = -32000
METHOD_NOT_FOUND = -32601
ALLOWED_KINDS = frozenset({"read", "edit", "move", "search", "think"})
"""Kinds of tools that are allowed without `yolo`: git can undo their effects."""

_STOPS = {
    "max_tokens": FailureKind.CONTEXT,
    "max_turn_requests": FailureKind.TURN_LIMIT,
    "cancelled": FailureKind.KILLED,
}
_PATTERNS = failure_patterns(
    (r"auth(?:entication)?[ _]required|not logged in|invalid api key|\b401\b", FailureKind.AUTH),
    (r"usage limit|exceeded your current quota", FailureKind.ALLOWANCE),
    (r"billing|credit balance|payment", FailureKind.BILLING),
    (r"rate.?limit|\b429\b", FailureKind.RATE_LIMIT),
    (r"overloaded|\b(?:503|529)\b", FailureKind.OVERLOADED),
    (r"\b50[024]\b|internal server error", FailureKind.SERVER),
)


_INITIALIZE_PARAMS: Record = {
    "protocolVersion": PROTOCOL_VERSION,
    "clientCapabilities": {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    },
    "clientInfo": {"name": "gigafactory", "version": "1"},
}


class AcpReader(LineReader):
    """Follows one start of an agent: opens a session, sends the prompt, answers by policy."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._model = None
        self._awaited = INITIALIZE
        self._kinds: dict[str, str] = {}
        self._tokens = Usage()
        self._cost: int | None = None
        self._message = MessageBuffer()
        self._failure: Failure | None = None
        self._done = False

    def _record(self, record: Record) -> Iterator[EngineEvent]:
        """Handle a message; emit the reply to send."""
        if "method" not in record:
            yield from self._response(record)
        elif "id" in record:
            yield from self._tool(record_at(record, "params", "toolCall"))
            yield SendInput(self._reply(record))
        elif text(record, "method") == "session/update" and self._awaited == PROMPT:
            # Earlier updates replay the history of a loaded session.
            yield from self._update(record_at(record, "params", "update"))

    def end(self, exit_code: int, files: Mapping[str, bytes]) -> EngineVerdict:  # noqa: ARG002 - it leaves none
        """Judge the run by the response to the prompt."""
        failure = self._failure
        if failure is None and not self._done:
            failure = failure_without_result(exit_code, str(self._stderr), _PATTERNS)
        unknown = failure is not None and failure.kind is FailureKind.UNKNOWN_SESSION
        total = Usage(cost_nano_usd=self._cost)
        return EngineVerdict(
            failure=failure,
            text=str(self._message),
            session=None if unknown else self._session,
            usage=self._usage(),
            session_usage=total if self._cost is not None else self._work.session_usage,
        )

    def _response(self, record: Record) -> Iterator[EngineEvent]:
        if self._done or self._failure is not None or value(record, "id") != self._awaited:
            return
        if "error" in record:
            yield from self._error(record_at(record, "error"))
            return
        result = record_at(record, "result")
        match self._awaited:
            case 1:
                yield from self._open_session(result)
            case 2:
                yield from self._session_opened(result)
            case 3:
                self._model = self._work.model
                yield from self._send_prompt()
            case _:
                yield from self._finished(result)

    def _open_session(self, result: Record) -> Iterator[EngineEvent]:
        if value(result, "protocolVersion") != PROTOCOL_VERSION:
            version = value(result, "protocolVersion")
            yield from self._end(
                Failure(
                    FailureKind.CRASH, f"the agent speaks protocol version {version}, expected 1"
                )
            )
            return
        params = {"cwd": self._work.worktree, "mcpServers": []}
        if self._work.session is None:
            yield self._send_request(SESSION, "session/new", params)
            return
        abilities = record_at(result, "agentCapabilities")
        if flag(abilities, "loadSession"):
            method = "session/load"
        elif isinstance(value(abilities, "sessionCapabilities", "resume"), Mapping):
            method = "session/resume"
        else:
            message = "this agent cannot resume a session"
            yield from self._end(Failure(FailureKind.UNKNOWN_SESSION, message))
            return
        yield self._send_request(SESSION, method, {"sessionId": self._work.session, **params})

    def _session_opened(self, result: Record) -> Iterator[EngineEvent]:
        """Select the model, if the agent offers a choice."""
        self._session = self._work.session or text(result, "sessionId") or None
        if self._session is None:
            yield from self._end(Failure(FailureKind.CRASH, "the agent returned no session id"))
            return
        yield SessionStarted(self._session)
        options = [o for o in records_at(result, "configOptions") if text(o, "category") == "model"]
        self._model = text(result, "models", "currentModelId") or None
        if options:
            self._model = text(options[0], "currentValue") or self._model
        wanted, session = self._work.model, {"sessionId": self._session}
        if wanted is None or wanted == self._model:
            yield from self._send_prompt()
        elif options:
            choice = {"configId": text(options[0], "id"), "value": wanted}
            yield self._send_request(MODEL, "session/set_config_option", {**session, **choice})
        elif record_at(result, "models"):
            yield self._send_request(MODEL, "session/set_model", {**session, "modelId": wanted})
        else:
            yield from self._send_prompt()

    def _send_prompt(self) -> Iterator[EngineEvent]:
        prompt = [{"type": "text", "text": prompt_with_persona(self._work)}]
        params = {"sessionId": self._session, "prompt": prompt}
        yield self._send_request(PROMPT, "session/prompt", params)

    def _finished(self, result: Record) -> Iterator[EngineEvent]:
        if used := record_at(result, "usage"):
            self._tokens = _tokens(used)
        elif self._tokens == Usage():
            self._tokens = _quota(record_at(result, "_meta", "quota", "token_count"))
        yield UsageUpdate(self._usage())
        reason = text(result, "stopReason")
        if reason == "end_turn":
            yield from self._end(None)
        else:
            kind = _STOPS.get(reason, FailureKind.CRASH)
            yield from self._end(Failure(kind, shorten(f"it stopped: {reason or 'no reason'}")))

    def _end(self, failure: Failure | None) -> Iterator[EngineEvent]:
        self._done, self._failure = failure is None, failure
        yield SendInput(b"", closes_stdin=True)

    def _error(self, error: Record) -> Iterator[EngineEvent]:
        detail = value(error, "data")
        message = shorten(f"{text(error, 'message')} {detail if detail is not None else ''}")
        kind = kind_of_message(message, _PATTERNS, API_PATTERNS)
        if value(error, "code") == AUTH_REQUIRED:
            kind = FailureKind.AUTH
        elif kind is None and self._awaited == SESSION and self._work.session is not None:
            kind = FailureKind.UNKNOWN_SESSION
        yield from self._end(Failure(kind or FailureKind.CRASH, message))

    def _update(self, update: Record) -> Iterator[EngineEvent]:
        match text(update, "sessionUpdate"):
            case "agent_message_chunk":
                if text(update, "content", "text"):
                    self._message.add(text(update, "content", "text"))
                    yield Text(text(update, "content", "text"))
                if used := record_at(update, "_meta", "usage"):
                    self._tokens = add(self._tokens, add(_tokens(used), Usage(turns=1)))
                    yield UsageUpdate(self._usage())
            case "tool_call" | "tool_call_update":
                yield from self._tool(update)
            case "usage_update" if text(update, "cost", "currency") == "USD":
                self._cost = nano_usd(update, "cost", "amount")
                yield UsageUpdate(self._usage())
            case _:
                pass

    def _tool(self, call: Record) -> Iterator[EngineEvent]:
        """Emit a tool call, which may first appear in a permission request or when it is done."""
        name, kind = text(call, "toolCallId"), text(call, "kind")
        if not name or name in self._kinds or len(self._kinds) >= SEEN_MAX:
            return
        self._kinds[name] = kind
        self._message.clear()
        # The title of a call may contain anything, such as a whole command; use its kind as the
        # name.
        yield ToolCall(kind or OTHER_TOOLS)

    def _usage(self) -> Usage:
        """Tokens are counted per prompt, cost per session."""
        before, cost = self._work.session_usage, None
        if self._cost is not None and (self._work.session is None or before is not None):
            cost = subtract(Usage(cost_nano_usd=self._cost), before).cost_nano_usd
        return msgspec.structs.replace(
            self._tokens,
            model=self._model,
            cost_nano_usd=cost,
        )

    def _reply(self, record: Record) -> bytes:
        if text(record, "method") != "session/request_permission":
            error = {"code": METHOD_NOT_FOUND, "message": "not offered here"}
            return _line({"id": value(record, "id"), "error": error})
        outcome = self._permission(record_at(record, "params"))
        return _line({"id": value(record, "id"), "result": {"outcome": outcome}})

    def _permission(self, params: Record) -> Record:
        """Answer by the policy of the job, without asking a person."""
        kind = text(params, "toolCall", "kind") or self._kinds.get(
            text(params, "toolCall", "toolCallId"), ""
        )
        allowed = self._work.yolo or kind in ALLOWED_KINDS
        offered = {text(option, "kind"): option for option in records_at(params, "options")}
        for wanted in ("allow_once", "allow_always") if allowed else ("reject_once",):
            if wanted in offered:
                return {"outcome": "selected", "optionId": text(offered[wanted], "optionId")}
        return {"outcome": "cancelled"}

    def _send_request(self, request: int, method: str, params: Record) -> SendInput:
        self._awaited = request
        return SendInput(_request(request, method, params))


def _request(request: int, method: str, params: Record) -> bytes:
    return _line({"id": request, "method": method, "params": params})


def _line(message: Mapping[str, object]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n"


def _tokens(usage: Record) -> Usage:
    """Normalise usage: some agents count cached tokens as input and reasoning as output."""
    into, out = count(usage, "inputTokens"), count(usage, "outputTokens")
    cached, written = count(usage, "cachedReadTokens"), count(usage, "cachedWriteTokens")
    thinking, total = count(usage, "thoughtTokens"), count(usage, "totalTokens")
    other = max(total - into - out, 0) if total else cached + written
    if other < cached + written:
        into = max(into - cached - written, 0)
    else:
        other -= cached + written
    return Usage(
        tokens_in=into,
        tokens_cached=cached,
        tokens_cache_write=written,
        tokens_out=out + thinking if other >= thinking else out,
        tokens_reasoning=thinking,
    )


def _quota(used: Record) -> Usage:
    """Usage of agents with only this count, which does not separate cached tokens."""
    return Usage(tokens_in=count(used, "input_tokens"), tokens_out=count(used, "output_tokens"))


def acp_engine(name: str, command: str = "", credentials: tuple[str, ...] = ()) -> Engine:
    """Return an engine that starts a command and speaks ACP with it.

    Raises ValueError for a command that cannot be parsed.
    """
    words = tuple(shlex.split(command))
    return Engine(
        name=name,
        programs=words[:1],
        credentials=credentials,
        start=partial(_start, words[1:]) if words else _start_named,
        reader=AcpReader,
    )


def _start(arguments: tuple[str, ...], work: Work) -> Start:
    return _start_with((work.program, *arguments))


def _start_named(work: Work) -> Start:
    return _start_with(tuple(shlex.split(work.command or "")) or (work.program,))


def _start_with(argv: tuple[str, ...]) -> Start:
    return Start(
        argv=argv, stdin=_request(INITIALIZE, "initialize", _INITIALIZE_PARAMS), stdin_open=True
    )


ACP = acp_engine("acp")
DEVIN = acp_engine("devin", "devin acp", ("DEVIN_API_KEY", "WINDSURF_API_KEY"))
