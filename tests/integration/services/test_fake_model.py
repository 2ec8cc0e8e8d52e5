"""The scripted model: the same script in every dialect, streamed or not."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.services.fake_model import FakeModel, fake_model

Json = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
PLACE = "Working directory: /repo\n"


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    with fake_model() as running:
        yield running


def messages(past: list[Json], *, stream: bool = False) -> tuple[str, Json]:
    tools = [{"name": "Bash", "input_schema": SCHEMA}]
    opening = {"role": "user", "content": [{"type": "text", "text": PLACE + "go"}]}
    return "/v1/messages", {
        "model": "m",
        "stream": stream,
        "tools": tools,
        "messages": [opening, *past],
    }


def responses(past: list[Json], *, stream: bool = False) -> tuple[str, Json]:
    tools = [{"type": "function", "name": "exec_command", "parameters": SCHEMA}]
    opening = {"type": "message", "role": "user", "content": PLACE + "go"}
    return "/v1/responses", {
        "model": "m",
        "stream": stream,
        "tools": tools,
        "input": [opening, *past],
    }


def chat(past: list[Json], *, stream: bool = False) -> tuple[str, Json]:
    tools = [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]
    opening = {"role": "user", "content": PLACE + "go"}
    return "/v1/chat/completions", {
        "model": "m",
        "stream": stream,
        "tools": tools,
        "messages": [opening, *past],
    }


def gemini(past: list[Json], *, stream: bool = False) -> tuple[str, Json]:
    tools = [{"functionDeclarations": [{"name": "run_shell_command", "parameters": SCHEMA}]}]
    opening = {"role": "user", "parts": [{"text": PLACE + "go"}]}
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/m:{verb}", {"tools": tools, "contents": [opening, *past]}


Dialect = Callable[..., tuple[str, Json]]
DIALECTS: list[Dialect] = [messages, responses, chat, gemini]


def answer(model: FakeModel, scenario: str, asked: tuple[str, Json], run: str = "") -> Json:
    path, body = asked
    got = httpx.post(model.url(scenario, run) + path, json=body, timeout=20)
    got.raise_for_status()
    outcome: Json = got.json()
    return outcome


def stream(model: FakeModel, scenario: str, asked: tuple[str, Json]) -> list[Json]:
    path, body = asked
    got = httpx.post(model.url(scenario) + path, json=body, timeout=20)
    got.raise_for_status()
    data = [line[6:] for line in got.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in data if line != "[DONE]"]


def past(dialect: Dialect, told: Json) -> list[Json]:
    """Return the conversation after a first turn, with the result of its tool call."""
    result: list[Json]
    if dialect is messages:
        result = [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]
        said = {"role": "assistant", "content": told["content"]}
        return [said, {"role": "user", "content": result}]
    if dialect is responses:
        return [*told["output"], {"type": "function_call_output", "call_id": "c", "output": "ok"}]
    if dialect is chat:
        return [told["choices"][0]["message"], {"role": "tool", "content": "ok"}]
    result = [{"functionResponse": {"name": "run_shell_command", "response": {"output": "ok"}}}]
    return [told["candidates"][0]["content"], {"role": "user", "parts": result}]


def test_messages_call_a_tool_and_then_end(model: FakeModel) -> None:
    first = answer(model, "create_file_by_shell", messages([]))
    assert first["stop_reason"] == "tool_use"
    assert first["content"][1]["input"]["command"].endswith("> hello.txt")
    last = answer(model, "create_file_by_shell", messages(past(messages, first)))
    assert last["stop_reason"] == "end_turn"
    assert last["usage"]["cache_read_input_tokens"] == 1000


def test_messages_are_streamed(model: FakeModel) -> None:
    events = stream(model, "create_file_by_shell", messages([], stream=True))
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == "I will create the file."
    arguments = "".join(delta.get("partial_json", "") for delta in deltas)
    assert json.loads(arguments)["command"].endswith("> hello.txt")


def test_responses_call_a_tool_and_then_end(model: FakeModel) -> None:
    first = answer(model, "create_file_by_shell", responses([]))
    assert json.loads(first["output"][1]["arguments"])["command"].endswith("> hello.txt")
    last = answer(model, "create_file_by_shell", responses(past(responses, first)))
    assert last["output"][0]["content"][0]["text"] == "Done: hello.txt is created."
    assert last["usage"]["input_tokens"] == 1300


def test_responses_are_streamed(model: FakeModel) -> None:
    events = stream(model, "create_file_by_shell", responses([], stream=True))
    assert [event["sequence_number"] for event in events] == list(range(1, len(events) + 1))
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert events[-1]["response"]["output"] == done


def test_responses_call_a_custom_script_tool(model: FakeModel) -> None:
    tools = [
        {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
    ]
    listed = {"type": "additional_tools", "tools": tools}
    path, body = responses([])
    first = answer(model, "create_file", (path, body | {"tools": [], "input": [listed]}))
    assert first["output"][1]["type"] == "custom_tool_call"
    assert "tools.exec_command" in first["output"][1]["input"]


def test_chat_calls_a_tool_and_then_ends(model: FakeModel) -> None:
    first = answer(model, "create_file_by_shell", chat([]))
    assert first["choices"][0]["finish_reason"] == "tool_calls"
    last = answer(model, "create_file_by_shell", chat(past(chat, first)))
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 1000}


def test_chat_is_streamed(model: FakeModel) -> None:
    events = stream(model, "create_file_by_shell", chat([], stream=True))
    deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == "I will create the file."
    assert events[-1]["usage"]["completion_tokens"] == 40


def test_gemini_calls_a_tool_and_then_ends(model: FakeModel) -> None:
    first = answer(model, "create_file_by_shell", gemini([]))
    called = first["candidates"][0]["content"]["parts"][1]["functionCall"]
    assert called["args"]["command"].endswith("> hello.txt")
    events = stream(model, "create_file_by_shell", gemini(past(gemini, first), stream=True))
    assert events[-1]["candidates"][0]["finishReason"] == "STOP"
    assert events[-1]["usageMetadata"]["cachedContentTokenCount"] == 1000


@pytest.mark.parametrize("dialect", DIALECTS)
def test_next_turn_is_derived_from_the_conversation(model: FakeModel, dialect: Dialect) -> None:
    run = f"turns-{dialect.__name__}"
    first = answer(model, "slow_shell", dialect([]), run)
    for conversation in ([], past(dialect, first), past(dialect, first) * 2, []):
        answer(model, "slow_shell", dialect(conversation), run)
    assert [asked.turn for asked in model.requests if asked.run == run] == [0, 0, 1, 2, 0]


@pytest.mark.parametrize(
    ("dialect", "status"), [(messages, 529), (responses, 503), (chat, 503), (gemini, 503)]
)
def test_refusal_uses_the_error_format_of_its_dialect(
    model: FakeModel, dialect: Dialect, status: int
) -> None:
    path, body = dialect([])
    got = httpx.post(model.url("overloaded") + path, json=body)
    assert got.status_code == status
    assert "overloaded" in got.json()["error"]["message"].lower()


def test_usage_limit_includes_its_reset_time(model: FakeModel) -> None:
    path, body = responses([])
    got = httpx.post(model.url("usage_limit") + path, json=body)
    assert got.status_code == 429
    assert got.headers["retry-after"] == "3600"
    assert abs(got.json()["error"]["resets_at"] - time.time() - 3600) < 60
    assert got.headers["anthropic-ratelimit-unified-reset"].isdigit()


def test_each_run_has_its_own_failure_count(model: FakeModel) -> None:
    path, body = messages([])
    for run in ("one", "two"):
        url = model.url("flaky", run) + path
        assert [httpx.post(url, json=body).status_code for _ in range(4)] == [529, 529, 200, 200]
    asked = [asked for asked in model.requests if asked.run == "one"]
    assert [request.refused for request in asked] == [True, True, False, False]


def test_request_without_tools_is_an_errand_and_not_a_turn(model: FakeModel) -> None:
    path, body = messages([])
    outcome = answer(model, "auth", (path, body | {"tools": []}), "errand")
    assert outcome["content"][0]["text"] == "Scripted task"
    assert [asked.errand for asked in model.requests if asked.run == "errand"] == [True]


def test_agent_without_tools_gets_the_file_in_the_text(model: FakeModel) -> None:
    path, body = chat([])
    outcome = answer(model, "whole_file", (path, body | {"tools": None}))
    assert "hello.txt\n```\n" in outcome["choices"][0]["message"]["content"]


def test_file_is_written_to_the_working_folder_of_the_agent(model: FakeModel) -> None:
    schema = {"properties": {"file_path": {}, "content": {}}, "required": ["file_path", "content"]}
    path, body = messages([])
    asked = body | {"tools": [{"name": "Write", "input_schema": schema}]}
    outcome = answer(model, "create_file", (path, asked))
    assert outcome["content"][1]["input"]["file_path"] == "/repo/hello.txt"


def test_requests_are_recorded_with_prompt_and_credentials(model: FakeModel) -> None:
    path, body = messages([])
    url = model.url("create_file_by_shell", "kept") + path
    system = {"system": [{"type": "text", "text": "Be brief."}]}
    httpx.post(url, json=body | system, headers={"x-api-key": "fake"})
    asked = model.wait(lambda request: request.run == "kept")
    assert (asked.system, asked.prompt, asked.credentials) == (
        "Be brief.",
        PLACE + "go",
        ("x-api-key",),
    )
    assert asked.body["model"] == "m"


def test_very_long_text_is_returned(model: FakeModel) -> None:
    first = answer(model, "big_output", chat([]))
    last = answer(model, "big_output", chat(past(chat, first)))
    assert len(last["choices"][0]["message"]["content"]) > 1_000_000


def test_hanging_request_ends_with_its_server() -> None:
    path, body = messages([])
    with ThreadPoolExecutor() as pool:
        with fake_model() as model:
            waiting = pool.submit(
                httpx.post, model.url("hang") + path, json=body, timeout=60, trust_env=False
            )
            model.wait(lambda request: request.scenario == "hang")
            assert not waiting.done()
        with pytest.raises(httpx.TransportError):
            waiting.result(timeout=20)


def test_unknown_scenario_is_rejected(model: FakeModel) -> None:
    with pytest.raises(KeyError):
        model.url("no-such")
    url = model.url("auth").replace("auth", "no-such")
    assert httpx.post(f"{url}/v1/messages", json={}).status_code == 404


def test_wait_for_a_missing_request_times_out(model: FakeModel) -> None:
    with pytest.raises(TimeoutError):
        model.wait(lambda _: False, within_s=0.01)
