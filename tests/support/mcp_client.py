"""A coding agent as the fleet meets it: the protocol's own client, at `aq mcp` or at its server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CallToolResult, TextContent

from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.mcp.server import server
from gigafactory.mcp.tool import ToolContext
from tests.services.aq import AQ, environment

CALL_WITHIN_S = 60.0


class Tools:
    """The tools of a server, as an agent uses them."""

    def __init__(self, client: Client) -> None:
        self.client = client

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
async def an_agent(url: str, token: str, job: str | None = None) -> AsyncIterator[Tools]:
    """An agent that speaks to the server without a process between, until the block ends."""
    async with AsyncClient(url, token) as fleet:
        served = server(ToolContext(fleet, job))
        async with Client(served, read_timeout_seconds=CALL_WITHIN_S) as client:
            yield Tools(client)


@asynccontextmanager
async def an_agent_with_aq(folder: Path, *flags: str, **environ: str) -> AsyncIterator[Tools]:
    """An agent with `aq mcp` beside it, until the block ends; `stderr.txt` is what that says."""
    how = StdioServerParameters(
        command=AQ,
        args=["mcp", *flags],
        env=environment(folder, **environ),
        cwd=folder,
        encoding_error_handler="strict",
    )
    with (folder / "stderr.txt").open("w") as err:
        async with Client(stdio_client(how, err), read_timeout_seconds=CALL_WITHIN_S) as client:
            yield Tools(client)
