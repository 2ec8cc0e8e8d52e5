"""A coding agent as the fleet meets it: the protocol's own client, and `aq mcp` as its server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, TextContent

from tests.services.aq import AQ, environment

CALL_WITHIN_S = 60.0


class Tools:
    """The tools of a server, as an agent uses them."""

    def __init__(self, client: Client, noise: Path) -> None:
        self.client = client
        self.noise = noise
        """What the server has written to stderr."""

    async def call(self, tool: str, **arguments: object) -> CallToolResult:
        """What comes of a call."""
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        return result

    async def told(self, tool: str, **arguments: object) -> dict[str, Any]:
        """The answer to a call, which must be a good one."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, result.content
        told: dict[str, Any] = result.structured_content
        return told

    async def refused(self, tool: str, **arguments: object) -> tuple[str, str]:
        """The code and the words of a call, which must be refused."""
        result = await self.call(tool, **arguments)
        assert result.is_error, result.content
        (content,) = result.content
        assert isinstance(content, TextContent)
        return result.structured_content["code"], content.text


@asynccontextmanager
async def an_agent(folder: Path, *flags: str, **environ: str) -> AsyncIterator[Tools]:
    """An agent with `aq mcp` beside it, until the block ends."""
    noise = folder / "stderr.txt"
    how = StdioServerParameters(
        command=AQ,
        args=["mcp", *flags],
        env=environment(folder, **environ),
        cwd=folder,
        encoding_error_handler="strict",
    )
    with noise.open("w") as err:
        async with Client(stdio_client(how, err), read_timeout_seconds=CALL_WITHIN_S) as client:
            yield Tools(client, noise)
