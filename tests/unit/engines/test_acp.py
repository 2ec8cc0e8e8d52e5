"""Engines that use the Agent Client Protocol: messages in both directions."""

from typing import Any

import msgspec
import pytest

from gigafactory.domain.job.run import Usage
from gigafactory.engines.acp import ACP, DEVIN, acp_engine
from gigafactory.engines.protocol.engine import (
    EngineEvent,
    EngineVerdict,
    SendInput,
    SessionStarted,
    Text,
    ToolCall,
    Work,
)
from tests.support.engine_replay import a_work, lines

AGENT = acp_engine("acp:agent --acp", "agent --acp")
ABLE = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
HELLO = {"id": 1, "result": ABLE}
OPENED = {"id": 2, "result": {"sessionId": "s-1"}}
DONE = {"id": 4, "result": {"stopReason": "end_turn"}}


class Talk:
    """One conversation in which the test plays the agent."""

    def __init__(self, work: Work | None = None) -> None:
        self.reader = AGENT.reader(work or a_work())
        self.events: list[EngineEvent] = []

    def hear(self, *messages: dict[str, Any]) -> "Talk":
        for message in messages:
            self.events.extend(self.reader.read(msgspec.json.encode(message).decode()))
        return self

    def update(self, **update: object) -> "Talk":
        return self.hear({"method": "session/update", "params": {"update": update}})

    @property
    def said(self) -> list[dict[str, Any]]:
        data = b"".join(event.data for event in self.events if isinstance(event, SendInput))
        return [msgspec.json.decode(line) for line in data.splitlines()]

    @property
    def closed(self) -> bool:
        return any(isinstance(event, SendInput) and event.closes_stdin for event in self.events)

    def end(self, exit_code: int = 0) -> EngineVerdict:
        return self.reader.end(exit_code, {})

    def trouble(self, exit_code: int = 0) -> str | None:
        failure = self.end(exit_code).failure
        return failure.kind if failure else None


def test_recorded_conversation_is_read_as_events_and_verdict() -> None:
    reader = AGENT.reader(a_work(yolo=True))
    events = [event for line in lines("acp", "qwen", "stdout.jsonl") for event in reader.read(line)]
    verdict = reader.end(0, {})
    assert verdict == EngineVerdict(
        text="Done: hello.txt is created.",
        session="6715699f-fa73-4f86-950d-177271d0f03e",
        usage=Usage(
            model="qwen3-coder-plus(openai)",
            tokens_in=1500,
            tokens_cached=1000,
            tokens_out=52,
            turns=2,
        ),
    )
    assert [event for event in events if isinstance(event, ToolCall)] == [ToolCall("edit")]


def test_initialize_is_sent_at_once_and_stdin_stays_open() -> None:
    start = AGENT.start(a_work(program="/bin/agent", prompt="SECRET"))
    assert start.argv == ("/bin/agent", "--acp")
    assert start.stdin_open
    first = msgspec.json.decode(start.stdin)
    assert (first["id"], first["method"], first["params"]["protocolVersion"]) == (
        1,
        "initialize",
        1,
    )
    assert b"SECRET" not in start.stdin


def test_session_is_opened_and_prompted_once() -> None:
    talk = Talk(a_work(persona="P", prompt="Do it.")).hear(HELLO, OPENED)
    opening, prompt = talk.said
    assert opening["method"] == "session/new"
    assert opening["params"] == {"cwd": "/work/tree", "mcpServers": []}
    assert prompt["method"] == "session/prompt"
    assert prompt["params"]["prompt"] == [{"type": "text", "text": "P\n\n---\n\nDo it."}]
    assert SessionStarted("s-1") in talk.events
    assert not talk.closed


def test_end_of_turn_closes_stdin_and_is_success_whatever_the_exit_code() -> None:
    talk = Talk().hear(HELLO, OPENED, DONE)
    assert talk.closed
    assert talk.trouble(-15) is None


def test_loaded_session_does_not_replay_its_past() -> None:
    talk = Talk(a_work(session="s-0")).hear(HELLO)
    talk.update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "old"})
    talk.hear({"id": 2, "result": {}})
    assert [message["method"] for message in talk.said] == ["session/load", "session/prompt"]
    assert talk.said[0]["params"]["sessionId"] == "s-0"
    assert [event for event in talk.events if isinstance(event, Text)] == []
    assert talk.end().session == "s-0"


def test_agent_that_can_only_resume_gets_a_resume_request() -> None:
    able = {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"resume": {}}}}
    talk = Talk(a_work(session="s-0")).hear({"id": 1, "result": able})
    assert [message["method"] for message in talk.said] == ["session/resume"]


@pytest.mark.parametrize(
    "answer",
    [
        [{"id": 1, "result": {"protocolVersion": 1}}],
        [HELLO, {"id": 2, "error": {"code": -32603, "message": "no such session"}}],
    ],
)
def test_session_that_cannot_continue_is_unknown(answer: list[dict[str, Any]]) -> None:
    talk = Talk(a_work(session="s-0")).hear(*answer)
    assert (talk.trouble(), talk.end().session, talk.closed) == ("unknown_session", None, True)


@pytest.mark.parametrize(
    ("models", "method", "chosen"),
    [
        (
            {"configOptions": [{"id": "m", "category": "model", "currentValue": "small"}]},
            "session/set_config_option",
            {"sessionId": "s-1", "configId": "m", "value": "large"},
        ),
        (
            {"models": {"currentModelId": "small"}},
            "session/set_model",
            {"sessionId": "s-1", "modelId": "large"},
        ),
    ],
)
def test_model_is_selected_where_the_agent_offers_a_choice(
    models: dict[str, Any], method: str, chosen: dict[str, str]
) -> None:
    opened = {"id": 2, "result": {"sessionId": "s-1", **models}}
    talk = Talk(a_work(model="large")).hear(HELLO, opened)
    assert (talk.said[-1]["method"], talk.said[-1]["params"]) == (method, chosen)
    talk.hear({"id": 3, "result": {}}, DONE)
    assert talk.said[-1]["method"] == "session/prompt"
    assert talk.end().usage.model == "large"


def test_agent_without_model_choice_uses_its_own() -> None:
    talk = Talk(a_work(model="large")).hear(HELLO, OPENED, DONE)
    assert (talk.trouble(), talk.end().usage.model) == (None, None)


@pytest.mark.parametrize(
    ("yolo", "kind", "outcome"),
    [
        (True, "execute", {"outcome": "selected", "optionId": "yes"}),
        (False, "edit", {"outcome": "selected", "optionId": "yes"}),
        (False, "execute", {"outcome": "selected", "optionId": "no"}),
        (False, None, {"outcome": "selected", "optionId": "no"}),
    ],
)
def test_permission_is_granted_by_policy(
    yolo: bool,  # noqa: FBT001 - a parameter of the test
    kind: str | None,
    outcome: dict[str, str],
) -> None:
    options = [
        {"optionId": "ever", "kind": "allow_always"},
        {"optionId": "yes", "kind": "allow_once"},
        {"optionId": "no", "kind": "reject_once"},
    ]
    call = {"toolCallId": "c", **({"kind": kind} if kind else {})}
    asked = {
        "id": "q",
        "method": "session/request_permission",
        "params": {"toolCall": call, "options": options},
    }
    talk = Talk(a_work(yolo=yolo)).hear(HELLO, OPENED, asked)
    assert talk.said[-1] == {"jsonrpc": "2.0", "id": "q", "result": {"outcome": outcome}}


def test_permission_request_without_options_is_cancelled() -> None:
    asked = {"id": 7, "method": "session/request_permission", "params": {"options": []}}
    talk = Talk(a_work(yolo=True)).hear(HELLO, OPENED, asked)
    assert talk.said[-1]["result"] == {"outcome": {"outcome": "cancelled"}}


def test_unsupported_client_method_is_rejected() -> None:
    talk = Talk().hear(HELLO, OPENED, {"id": 8, "method": "terminal/create", "params": {}})
    assert talk.said[-1]["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        ({"result": {"stopReason": "max_tokens"}}, "context"),
        ({"result": {"stopReason": "max_turn_requests"}}, "turn_limit"),
        ({"result": {"stopReason": "cancelled"}}, "killed"),
        ({"result": {"stopReason": "refusal"}}, "crash"),
        ({"result": {}}, "crash"),
        ({"error": {"code": -32000, "message": "Authentication required"}}, "auth"),
        ({"error": {"code": -32603, "message": "429 Rate limit reached"}}, "rate_limit"),
        ({"error": {"code": -32603, "message": "Internal", "data": {"status": 529}}}, "overloaded"),
        ({"error": {"code": -32603, "message": "fetch failed"}}, "network"),
        ({"error": {"code": -32603, "message": "Internal error"}}, "crash"),
        ({"error": None}, "crash"),
    ],
)
def test_stop_reason_decides_the_outcome(answer: dict[str, Any], trouble: str) -> None:
    talk = Talk().hear(HELLO, OPENED, {"id": 4, **answer})
    assert (talk.trouble(), talk.closed) == (trouble, True)


@pytest.mark.parametrize(
    ("messages", "trouble"),
    [
        ([{"id": 1, "result": {"protocolVersion": 2}}], "crash"),
        ([HELLO, {"id": 2, "result": {}}], "crash"),
        ([HELLO, {"id": 2, "error": {"code": -32000, "message": "auth"}}], "auth"),
        ([HELLO, OPENED], "no_end"),
        ([DONE], "no_end"),
        ([HELLO, {"id": 4, "result": {"stopReason": "end_turn"}}], "no_end"),
    ],
)
def test_incomplete_conversation_is_a_failure(messages: list[dict[str, Any]], trouble: str) -> None:
    assert Talk().hear(*messages).trouble() == trouble


def test_killed_agent_is_reported_as_killed() -> None:
    assert Talk().hear(HELLO, OPENED).trouble(-9) == "killed"


@pytest.mark.parametrize(
    ("total", "tokens_in", "tokens_out"),
    [(112 + 40 + 6, 100, 18), (112 + 40, 100, 12), (112 + 6, 60, 18), (112, 60, 12), (0, 100, 12)],
)
def test_cached_and_thinking_tokens_are_derived_from_the_total(
    total: int, tokens_in: int, tokens_out: int
) -> None:
    used = {
        "inputTokens": 100,
        "outputTokens": 12,
        "cachedReadTokens": 40,
        "thoughtTokens": 6,
        "totalTokens": total,
    }
    done = {"id": 4, "result": {"stopReason": "end_turn", "usage": used}}
    usage = Talk().hear(HELLO, OPENED, done).end().usage
    assert (usage.tokens_in, usage.tokens_cached, usage.tokens_out) == (tokens_in, 40, tokens_out)
    assert usage.tokens_reasoning == 6


def test_token_count_of_an_extension_is_used() -> None:
    extension = {"quota": {"token_count": {"input_tokens": 2500, "output_tokens": 52}}}
    done = {"id": 4, "result": {"stopReason": "end_turn", "_meta": extension}}
    usage = Talk().hear(HELLO, OPENED, done).end().usage
    assert (usage.tokens_in, usage.tokens_out) == (2500, 52)


def test_cost_is_counted_per_session() -> None:
    first = Talk().hear(HELLO, OPENED)
    first.update(sessionUpdate="usage_update", cost={"amount": 0.5, "currency": "USD"})
    verdict = first.end()
    assert verdict.usage.cost_nano_usd == 500_000_000
    again = Talk(a_work(session="s-1", session_usage=verdict.session_usage))
    again.hear(HELLO, {"id": 2, "result": {}})
    again.update(sessionUpdate="usage_update", cost={"amount": 0.75, "currency": "USD"})
    assert again.end().usage.cost_nano_usd == 250_000_000
    unknown = Talk(a_work(session="s-1")).hear(HELLO, {"id": 2, "result": {}})
    unknown.update(sessionUpdate="usage_update", cost={"amount": 0.75, "currency": "USD"})
    assert unknown.end().usage.cost_nano_usd is None


def test_cost_in_another_currency_is_ignored() -> None:
    talk = Talk().hear(HELLO, OPENED)
    talk.update(sessionUpdate="usage_update", cost={"amount": 0.5, "currency": "EUR"})
    assert talk.end().usage.cost_nano_usd is None


def test_manifest_command_is_used_where_the_engine_names_none() -> None:
    assert ACP.start(a_work(command="agent 'a b'")).argv == ("agent", "a b")
    assert ACP.start(a_work(program="/bin/agent")).argv == ("/bin/agent",)


def test_devin_is_an_acp_agent() -> None:
    assert (DEVIN.name, DEVIN.programs) == ("devin", ("devin",))
    assert DEVIN.start(a_work(program="/bin/devin")).argv == ("/bin/devin", "acp")
