"""The Responses dialect, which codex speaks."""

import json
import time
from collections.abc import Iterator, Sequence
from itertools import count

from tests.services.fake_model.conversation import (
    Ask,
    Event,
    Json,
    Reply,
    Said,
    flat,
    new_id,
    pieces,
)
from tests.services.fake_model.scenarios import Refusal, Tokens

NAME = "responses"
CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call"})


def ask(path: str, body: Json) -> Ask:
    """Parse a request."""
    given = body.get("input", [])
    items: list[Json] = [{"role": "user", "content": given}] if isinstance(given, str) else given
    # For newer models, codex sends the tools as an item of the conversation.
    listed = [item for item in items if item.get("type") == "additional_tools"]
    tools = [tool for item in (body, *listed) for tool in _tools(item.get("tools") or ())]
    users = [item.get("content") for item in items if item.get("role") == "user"]
    system = [item.get("content") for item in items if item.get("role") in {"developer", "system"}]
    return Ask(
        model=body.get("model", "?"),
        stream=bool(body.get("stream")),
        tools={tool["name"]: tool.get("parameters") or {} for tool in tools},
        freeform=frozenset(tool["name"] for tool in tools if tool.get("type") == "custom"),
        past=_past([item for item in items if item.get("type") != "additional_tools"]),
        system="\n".join([body.get("instructions") or "", *map(flat, system)]),
        prompt=flat(users[-1]) if users else "",
    )


def _tools(listed: Sequence[Json]) -> Iterator[Json]:
    for tool in listed:
        if tool.get("type") == "namespace":
            yield from _tools(tool.get("tools", ()))
        elif "name" in tool:
            yield tool


def _past(items: Sequence[Json]) -> tuple[Said, ...]:
    """Return the model's turns; consecutive items of the model form one turn."""
    past: list[Said] = []
    speaking = False
    for item in items:
        called = item.get("type") in CALLS
        ours = called or item.get("role") == "assistant" or item.get("type") == "reasoning"
        if ours:
            before = past.pop() if speaking else Said("", called=False)
            text = flat(item.get("content")) if item.get("role") == "assistant" else ""
            past.append(Said(before.text + text, before.called or called))
        speaking = ours
    return tuple(past)


def _usage(tokens: Tokens) -> Json:
    taken = tokens.input + tokens.cached
    return {
        "input_tokens": taken,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": taken + tokens.output,
    }


def _items(reply: Reply) -> Iterator[Json]:
    done = {"status": "completed"}
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        yield {
            "type": "message",
            "id": new_id("msg"),
            "role": "assistant",
            "content": [part],
        } | done
    if reply.call:
        namespace, _, name = reply.call.name.rpartition("/")
        call = {"call_id": reply.call.id, "name": name} | done
        call |= {"namespace": namespace} if namespace else {}
        if isinstance(reply.call.arguments, str):
            custom = {"type": "custom_tool_call", "id": new_id("ctc")}
            yield custom | call | {"input": reply.call.arguments}
        else:
            function = {"type": "function_call", "id": new_id("fc")}
            yield function | call | {"arguments": json.dumps(reply.call.arguments)}


def whole(reply: Reply) -> Json:
    """Return a reply as one response body."""
    return {
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "model": reply.model,
        "output": list(_items(reply)),
        "usage": _usage(reply.tokens),
        "error": None,
        "incomplete_details": None,
        "parallel_tool_calls": True,
        "tools": [],
        "tool_choice": "auto",
    }


def events(reply: Reply) -> Iterator[Event]:
    """Yield a reply as the events of a stream."""
    numbers = count(1)
    for kind, more in _steps(reply):
        yield kind, {"type": kind, "sequence_number": next(numbers), **more}


def _steps(reply: Reply) -> Iterator[tuple[str, Json]]:
    done = whole(reply)
    opening = {"response": done | {"status": "in_progress", "output": [], "usage": None}}
    yield "response.created", opening
    yield "response.in_progress", opening
    for index, item in enumerate(done["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        begun = {"message": {"content": []}, "function_call": {"arguments": ""}}
        empty = item | {"status": "in_progress"} | begun.get(item["type"], {"input": ""})
        yield "response.output_item.added", {"output_index": index, "item": empty}
        if item["type"] == "message":
            yield from _spoken(item["content"][0], at | {"content_index": 0})
        elif item["type"] == "function_call":
            for piece in pieces(item["arguments"]):
                yield "response.function_call_arguments.delta", at | {"delta": piece}
            ended = at | {"arguments": item["arguments"]}
            yield "response.function_call_arguments.done", ended
        else:
            yield "response.custom_tool_call_input.delta", at | {"delta": item["input"]}
            yield "response.custom_tool_call_input.done", at | {"input": item["input"]}
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield "response.completed", {"response": done}


def _spoken(part: Json, at: Json) -> Iterator[tuple[str, Json]]:
    yield "response.content_part.added", at | {"part": part | {"text": ""}}
    for piece in pieces(part["text"]):
        yield "response.output_text.delta", at | {"delta": piece}
    yield "response.output_text.done", at | {"text": part["text"]}
    yield "response.content_part.done", at | {"part": part}


def refuse(refusal: Refusal) -> tuple[int, Json]:
    """Return the status and the body of a refusal."""
    words = refusal.openai
    result = {"message": words.message, "type": words.kind, "param": None, "code": words.code}
    return words.status, {"error": {**result, **words.more}}
