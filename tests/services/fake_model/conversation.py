"""Requests and replies of the scripted model, independent of the dialect."""

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tests.services.fake_model.scenarios import (
    Refusal,
    Scenario,
    Shell,
    Tokens,
    Turn,
    Use,
    Write,
)

Json = dict[str, Any]
Event = tuple[str | None, Json | str]
"""One event of a stream: its name, if the dialect has names, and its data."""

SHELL_TOOLS = (
    *("Bash", "bash", "exec_command", "shell_command", "shell", "run_shell_command"),
    *("run_commands", "execute_command", "execute_bash", "terminal"),
)
WAIT_TOOL = "WaitForMcpServers"
WRITE_TOOLS = ("Write", "write", "write_file", "create", "write_to_file", "create_file")
PATH_NAMES = ("file_path", "filePath", "path")
CONTENT_NAMES = ("content", "file_text", "contents")
COMMAND_NAMES = ("command", "cmd", "commands")
WORKING_DIRECTORY = re.compile(
    r"(?:<cwd>|working directory:?(?: is:?)?|working in the directory:?)\s*`?(/[^\s`\"<,\\]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Said:
    """An earlier turn of the model in the conversation."""

    text: str
    called: bool


@dataclass(frozen=True, kw_only=True)
class Ask:
    """An agent's request to the model."""

    model: str
    stream: bool
    tools: Mapping[str, Json]
    """The schemas of the offered tools, by name."""
    freeform: frozenset[str] = frozenset()
    """The names of the tools that take plain text."""
    past: tuple[Said, ...]
    system: str
    prompt: str
    """The last message of the user."""

    def turn(self, scenario: Scenario) -> int:
        """Return the index of the next turn: the number of scenario turns in the conversation."""
        return sum(said.called or said.text.strip() in scenario.texts for said in self.past)


@dataclass(frozen=True)
class Call:
    """A tool call that the model requests."""

    id: str
    name: str
    arguments: Json | str


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A reply of the model."""

    model: str
    text: str
    call: Call | None
    tokens: Tokens


class Dialect(Protocol):
    """An HTTP API of a model; each dialect is a module."""

    NAME: str

    def ask(self, path: str, body: Json) -> Ask:
        """Parse a request."""
        ...

    def whole(self, reply: Reply) -> Json:
        """Return a reply as one response body."""
        ...

    def events(self, reply: Reply) -> Iterator[Event]:
        """Yield a reply as the events of a stream."""
        ...

    def refuse(self, refusal: Refusal) -> tuple[int, Json]:
        """Return the status and the body of a refusal."""
        ...


def new_id(prefix: str) -> str:
    """Return a new id with a prefix, as model services create them."""
    return f"{prefix}_{uuid.uuid4().hex[:24]}"


def flat(content: object) -> str:
    """Return the text of a message, which is a string or a list of parts."""
    match content:
        case str():
            return content
        case list():
            return "\n".join(filter(None, map(flat, content)))
        case {"text": str(text)}:
            return text
        case {"content": inner}:
            return flat(inner)
        case _:
            return ""


def pieces(text: str) -> Iterator[str]:
    """Split a text for streaming: at most about a hundred pieces of at least 24 characters."""
    size = max(24, len(text) // 100)
    for start in range(0, len(text), size):
        yield text[start : start + size]


def reply(ask: Ask, turn: Turn, raw: str) -> Reply:
    """Return the model's reply, with its step as a call of a tool that the agent offers."""
    call = None if turn.step is None else _call(turn.step, ask, raw)
    return Reply(model=ask.model, text=turn.text, call=call, tokens=turn.tokens)


def _call(step: Shell | Write | Use, ask: Ask, raw: str) -> Call:
    if isinstance(step, Use):
        return _used(step, ask)
    if isinstance(step, Write):
        for name in WRITE_TOOLS:
            if name in ask.tools:
                return Call(new_id("call"), name, _written(ask.tools[name], step, raw))
        step = Shell(f"cat > {step.name} <<'END_OF_FILE'\n{step.content}END_OF_FILE")
    if "exec" in ask.freeform:
        script = f"text(await tools.exec_command({{cmd: {json.dumps(step.command)}}}))"
        return Call(new_id("call"), "exec", script)
    for name in SHELL_TOOLS:
        if name in ask.tools:
            return Call(new_id("call"), name, _typed(ask.tools[name], step.command))
    raise LookupError(f"the agent offers no shell that is known here; it offers {[*ask.tools]}")


def _used(step: Use, ask: Ask) -> Call:
    name = next((name for name in ask.tools if name.endswith(step.tool)), None)
    if name is not None:
        return Call(new_id("call"), name, dict(step.arguments))
    if WAIT_TOOL in ask.tools:
        return Call(new_id("call"), WAIT_TOOL, _complete({}, ask.tools[WAIT_TOOL]))
    # A tool that the agent does not list yet can still be called by its server's name.
    return Call(new_id("call"), f"mcp__{step.server}/{step.tool}", dict(step.arguments))


def _written(schema: Json, step: Write, raw: str) -> Json:
    # Some agents accept only absolute paths; their prompt contains the working directory.
    match = WORKING_DIRECTORY.search(raw)
    folder = match.group(1).rstrip(".") if match else "."
    taken = schema.get("properties", {})
    path = next((name for name in PATH_NAMES if name in taken), "path")
    content = next((name for name in CONTENT_NAMES if name in taken), "content")
    return _complete({path: f"{folder}/{step.name}", content: step.content}, schema)


def _typed(schema: Json, command: str) -> Json:
    taken = schema.get("properties", {})
    name = next((name for name in COMMAND_NAMES if name in taken), "command")
    if name == "commands":
        return _complete({name: [command]}, schema)
    if taken.get(name, {}).get("type") == "array":
        return _complete({name: ["bash", "-lc", command]}, schema)
    return _complete({name: command}, schema)


def _complete(arguments: Json, schema: Json) -> Json:
    """Add a value of the right type for every missing required argument."""
    some = {"boolean": False, "number": 60000, "integer": 60000, "array": [], "object": {}}
    for name in schema.get("required", ()):
        about = schema.get("properties", {}).get(name, {})
        value = about["enum"][0] if about.get("enum") else some.get(about.get("type"), "scripted")
        arguments.setdefault(name, value)
    return arguments
