"""The Messages dialect, which claude speaks."""

import json
from collections.abc import Iterator

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

NAME = "anthropic"


def ask(path: str, body: Json) -> Ask:
    """Parse a request."""
    messages = body.get("messages", [])
    users = [message["content"] for message in messages if message.get("role") == "user"]
    return Ask(
        model=body.get("model", "?"),
        stream=bool(body.get("stream")),
        tools={
            tool["name"]: tool.get("input_schema", {})
            for tool in body.get("tools") or ()
            if "name" in tool
        },
        past=tuple(
            _said(message["content"]) for message in messages if message.get("role") == "assistant"
        ),
        system=flat(body.get("system")),
        prompt=flat(users[-1]) if users else "",
    )


def _said(content: str | list[Json]) -> Said:
    if isinstance(content, str):
        return Said(content, called=False)
    kinds = {block.get("type") for block in content}
    return Said(
        flat([block for block in content if block.get("type") == "text"]), "tool_use" in kinds
    )


def _usage(tokens: Tokens) -> Json:
    return {
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.output,
    }


def _blocks(reply: Reply) -> list[Json]:
    blocks: list[Json] = [{"type": "text", "text": reply.text}] if reply.text else []
    if reply.call:
        call = {"id": reply.call.id.replace("call_", "toolu_"), "name": reply.call.name}
        blocks.append({"type": "tool_use", **call, "input": reply.call.arguments})
    return blocks


def _reason(reply: Reply) -> str:
    return "tool_use" if reply.call else "end_turn"


def whole(reply: Reply) -> Json:
    """Return a reply as one response body."""
    return {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": _blocks(reply),
        "stop_reason": _reason(reply),
        "stop_sequence": None,
        "usage": _usage(reply.tokens),
    }


def events(reply: Reply) -> Iterator[Event]:
    """Yield a reply as the events of a stream."""
    opening = whole(reply) | {"content": [], "stop_reason": None}
    opening["usage"] = _usage(reply.tokens) | {"output_tokens": 1}
    yield _event("message_start", message=opening)
    for index, block in enumerate(_blocks(reply)):
        if block["type"] == "text":
            empty = block | {"text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        else:
            empty = block | {"input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": piece}
                for piece in pieces(json.dumps(block["input"]))
            ]
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    closing = {"stop_reason": _reason(reply), "stop_sequence": None}
    yield _event("message_delta", delta=closing, usage=_usage(reply.tokens))
    yield _event("message_stop")


def _event(kind: str, **more: object) -> Event:
    return kind, {"type": kind, **more}


def refuse(refusal: Refusal) -> tuple[int, Json]:
    """Return the status and the body of a refusal."""
    words = refusal.anthropic
    error = {"type": words.kind, "message": words.message}
    return words.status, {"type": "error", "error": error, "request_id": new_id("req")}
