"""The Chat Completions dialect, which most other agents speak."""

import json
import time
from collections.abc import Iterator

from tests.services.fake_model import responses
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

NAME = "chat"


def ask(path: str, body: Json) -> Ask:
    """Parse a request."""
    messages = body.get("messages", [])
    by_role = {
        role: [message for message in messages if message.get("role") == role]
        for role in ("system", "developer", "user", "assistant")
    }
    users = by_role["user"]
    functions = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
    return Ask(
        model=body.get("model", "?"),
        stream=bool(body.get("stream")),
        tools={function["name"]: function.get("parameters", {}) for function in functions},
        past=tuple(
            Said(flat(message.get("content")), bool(message.get("tool_calls")))
            for message in by_role["assistant"]
        ),
        system=flat([*by_role["system"], *by_role["developer"]]),
        prompt=flat(users[-1].get("content")) if users else "",
    )


def _usage(tokens: Tokens) -> Json:
    taken = tokens.input + tokens.cached
    return {
        "prompt_tokens": taken,
        "completion_tokens": tokens.output,
        "total_tokens": taken + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _reason(reply: Reply) -> str:
    return "tool_calls" if reply.call else "stop"


def whole(reply: Reply) -> Json:
    """Return a reply as one response body."""
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.call:
        called = {"name": reply.call.name, "arguments": json.dumps(reply.call.arguments)}
        message["tool_calls"] = [{"id": reply.call.id, "type": "function", "function": called}]
    return {
        "id": new_id("chatcmpl"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": reply.model,
        "choices": [{"index": 0, "message": message, "finish_reason": _reason(reply)}],
        "usage": _usage(reply.tokens),
    }


def events(reply: Reply) -> Iterator[Event]:
    """Yield a reply as the events of a stream."""
    whole_one = whole(reply)
    frame = whole_one | {"object": "chat.completion.chunk", "usage": None}
    for delta in _deltas(reply):
        yield None, frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    last = {"index": 0, "delta": {}, "finish_reason": _reason(reply)}
    yield None, frame | {"choices": [last]}
    yield None, frame | {"choices": [], "usage": whole_one["usage"]}
    yield None, "[DONE]"


def _deltas(reply: Reply) -> Iterator[Json]:
    yield {"role": "assistant", "content": ""}
    for piece in pieces(reply.text):
        yield {"content": piece}
    if reply.call:
        opening = {"id": reply.call.id, "type": "function"}
        function = {"name": reply.call.name, "arguments": ""}
        yield {"tool_calls": [{"index": 0, **opening, "function": function}]}
        for piece in pieces(json.dumps(reply.call.arguments)):
            yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def refuse(refusal: Refusal) -> tuple[int, Json]:
    """Return the status and the body of a refusal, as in the Responses dialect."""
    return responses.refuse(refusal)
