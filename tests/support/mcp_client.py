"""A coding agent: the official MCP client, connected to `aq mcp` or to the server object."""

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
        """Call a tool and return the result."""
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        return result

    async def call_ok(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool, expect success and return its content."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, result.content
        content_dict: dict[str, Any] = result.structured_content
        return content_dict

    async def call_refused(self, tool: str, **arguments: object) -> tuple[str, str]:
        """Call a tool, expect a refusal and return its code and text."""
        result = await self.call(tool, **arguments)
        assert result.is_error, result.content
        (content,) = result.content
        assert isinstance(content, TextContent)
        return result.structured_content["code"], content.text


@asynccontextmanager
async def an_agent(url: str, token: str, job: str | None = None) -> AsyncIterator[Tools]:
    """Connect an agent to the server in this process until the block ends."""
    async with AsyncClient(url, token) as fleet:
        mcp_server = server(ToolContext(fleet, job))
        async with Client(mcp_server, read_timeout_seconds=CALL_WITHIN_S) as client:
            yield Tools(client)


@asynccontextmanager
async def an_agent_with_aq(folder: Path, *flags: str, **environ: str) -> AsyncIterator[Tools]:
    """Connect an agent to `aq mcp` until the block ends; its stderr goes to `stderr.txt`."""
    parameters = StdioServerParameters(
        command=AQ,
        args=["mcp", *flags],
        env=environment(folder, **environ),
        cwd=folder,
        encoding_error_handler="strict",
    )
    with (folder / "stderr.txt").open("w") as err:
        async with Client(
            stdio_client(parameters, err), read_timeout_seconds=CALL_WITHIN_S
        ) as client:
            yield Tools(client)
