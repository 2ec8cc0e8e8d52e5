"""An agent on a PATH that does and says what a test wants, in the words of a real one."""

import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gigafactory.engines.pi import PI
from tests.services.few_tools import search_path
from tests.support.factory.fake_tools import program

VERSION = "0.73.1"
MODEL = "claude-sonnet-4-5"


def said(**line: object) -> str:
    """A shell command that prints one JSON line."""
    return f"printf '%s\\n' {shlex.quote(msgspec.json.encode(line).decode())}"


def used_tool(name: str) -> str:
    """It calls a tool."""
    return said(type="tool_execution_start", toolName=name)


def called(
    tokens_in: int, tokens_out: int, *, cached: int = 0, cost: float = 0.0, model: str = MODEL
) -> str:
    """It has heard from its model."""
    usage = {"input": tokens_in, "output": tokens_out, "cacheRead": cached, "cost": {"total": cost}}
    message = {"role": "assistant", "model": model, "stopReason": "stop", "usage": usage}
    return said(type="message_end", message=message)


DONE = said(type="agent_end", messages=[{"stopReason": "stop"}])
"""It says that it is done."""


def scripted(folder: Path, *commands: str) -> Mapping[str, str]:
    """The environment of a factory with an agent (`engine: pi`) that runs these commands."""
    body = "\n".join(commands)
    program(
        folder,
        "pi",
        f"""case "$1" in
  --version) echo {VERSION}; exit ;;
  --help) echo '{" ".join(PI.flags)}'; exit ;;
esac
cat > /dev/null
{body}""",
    )
    return {"PATH": f"{folder}:{search_path()}"}
