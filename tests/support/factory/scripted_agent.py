"""A fake agent on a PATH that runs a test's commands and prints the protocol of a real one."""

import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gigafactory.engines.pi import PI
from tests.services.few_tools import search_path
from tests.support.factory.fake_tools import program

VERSION = "0.73.1"
MODEL = "claude-sonnet-4-5"


def print_json(**line: object) -> str:
    """Return a shell command that prints one JSON line."""
    return f"printf '%s\\n' {shlex.quote(msgspec.json.encode(line).decode())}"


def tool_call(name: str) -> str:
    """Return a command that reports a tool call."""
    return print_json(type="tool_execution_start", toolName=name)


def model_response(
    tokens_in: int, tokens_out: int, *, cached: int = 0, cost: float = 0.0, model: str = MODEL
) -> str:
    """Return a command that reports a response of the model."""
    usage = {"input": tokens_in, "output": tokens_out, "cacheRead": cached, "cost": {"total": cost}}
    message = {"role": "assistant", "model": model, "stopReason": "stop", "usage": usage}
    return print_json(type="message_end", message=message)


DONE = print_json(type="agent_end", messages=[{"stopReason": "stop"}])
"""Reports the end of the agent."""


def scripted_agent(
    folder: Path, *commands: str, prompts: Path = Path("/dev/null")
) -> Mapping[str, str]:
    """Write an agent (`engine: pi`) that runs these commands; return the factory's environment.

    It appends its prompts to a file.
    """
    body = "\n".join(commands)
    program(
        folder,
        "pi",
        f"""case "$1" in
  --version) echo {VERSION}; exit ;;
  --help) echo '{" ".join(PI.flags)}'; exit ;;
esac
cat >> {prompts}
{body}""",
    )
    return {"PATH": f"{folder}:{search_path()}"}
