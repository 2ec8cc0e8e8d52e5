"""The generateContent dialect, which gemini speaks."""

import re
from collections.abc import Iterator

from tests.services.fake_model.conversation import Ask, Event, Json, Reply, Said, flat, new_id
from tests.services.fake_model.scenarios import Refusal

NAME = "gemini"
ASKED = re.compile(r"/models/([^/:]+):(\w+)")


def ask(path: str, body: Json) -> Ask:
    """Parse a request."""
    asked = ASKED.search(path)
    assert asked is not None, "only such paths lead here"
    contents = body.get("contents", [])
    users = [content.get("parts") for content in contents if content.get("role") == "user"]
    system = body.get("systemInstruction") or {}
    return Ask(
        model=asked.group(1),
        stream=asked.group(2).startswith("stream"),
        tools={
            tool["name"]: tool.get("parametersJsonSchema") or tool.get("parameters") or {}
            for group in body.get("tools") or ()
            for tool in group.get("functionDeclarations", ())
        },
        past=tuple(
            _said(content.get("parts", []))
            for content in contents
            if content.get("role") == "model"
        ),
        system=flat(system.get("parts") if isinstance(system, dict) else system),
        prompt=flat(users[-1]) if users else "",
    )


def _said(parts: list[Json]) -> Said:
    spoken = [part for part in parts if "text" in part and not part.get("thought")]
    return Said(flat(spoken), any("functionCall" in part for part in parts))


def _parts(reply: Reply) -> list[Json]:
    parts: list[Json] = [{"text": reply.text}] if reply.text else []
    if reply.call:
        called = {"id": reply.call.id, "name": reply.call.name, "args": reply.call.arguments}
        parts.append({"functionCall": called})
    return parts


def _frame(reply: Reply, parts: list[Json], *, last: bool) -> Json:
    tokens = reply.tokens
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    return {
        "candidates": [candidate | ({"finishReason": "STOP"} if last else {})],
        "modelVersion": reply.model,
        "responseId": new_id("r"),
        "usageMetadata": {
            "promptTokenCount": tokens.input + tokens.cached,
            "candidatesTokenCount": tokens.output,
            "cachedContentTokenCount": tokens.cached,
            "totalTokenCount": tokens.input + tokens.cached + tokens.output,
        },
    }


def whole(reply: Reply) -> Json:
    """Return a reply as one response body."""
    return _frame(reply, _parts(reply), last=True)


def events(reply: Reply) -> Iterator[Event]:
    """Yield a reply as the events of a stream."""
    parts = _parts(reply)
    for number, part in enumerate(parts, start=1):
        yield None, _frame(reply, [part], last=number == len(parts))


def refuse(refusal: Refusal) -> tuple[int, Json]:
    """Return the status and the body of a refusal."""
    words = refusal.gemini
    error = {"code": words.status, "message": words.message, "status": words.kind, "details": []}
    return words.status, {"error": error}
