"""The MCP server: serves tools over stdin and stdout."""

import signal
from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types as types
import msgspec
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from gigafactory import __version__
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import Refused
from gigafactory.mcp import jobs, logs, plans
from gigafactory.mcp.results import describe_refusal, format_refusal
from gigafactory.mcp.tool import McpTool, ToolContext

FOR_AGENTS: tuple[McpTool[Any], ...] = (
    jobs.SUBMIT,
    plans.HAND_IN,
    jobs.STATUS,
    plans.STATUS,
    logs.READ,
)
"""Tools that a job token may use."""
FOR_PEOPLE = (*FOR_AGENTS, jobs.LIST)

INSTRUCTIONS = """\
Gigafactory is a fleet of machines on which coding agents work on jobs. A job is a unit of work \
with its own instructions; a composite groups child jobs. People review and ship. With these tools \
you can submit jobs, submit a composite's plan, get the status of jobs and read their logs.\
"""


def tools_for(fleet: ToolContext) -> Mapping[str, McpTool[Any]]:
    """Return the tools available to the caller, by name."""
    tools = FOR_PEOPLE if fleet.job is None else FOR_AGENTS
    return {tool.name: tool for tool in tools}


def server(fleet: ToolContext) -> Server[Any]:
    """Create an MCP server with the caller's tools."""
    tools = tools_for(fleet)

    async def list_tools(
        _: ServerRequestContext[Any], _page: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_to_mcp_tools(tools.values()))

    async def call_tool(
        _: ServerRequestContext[Any], request: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = tools.get(request.name)
        if tool is None:
            message = f"unknown tool {request.name[:100]!r}; available: {', '.join(tools)}"
            raise MCPError(types.INVALID_PARAMS, message)
        try:
            return _result(await tool.call(fleet, request.arguments or {}))
        except Refused as refused:
            return _error_result(refused)

    return Server(
        "gigafactory",
        version=__version__,
        title="Gigafactory",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve(client: AsyncClient, job: str | None) -> None:
    """Serve requests on stdin until it ends; `job` is the id of the calling agent's own job."""
    # The server keeps no state, so it can be interrupted at any time.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    async with client, stdio_server() as (incoming, outgoing):
        served = server(ToolContext(client, job))
        await served.run(incoming, outgoing, served.create_initialization_options())


def _to_mcp_tools(tools: Iterable[McpTool[Any]]) -> list[types.Tool]:
    return [
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=tool.schema,
            annotations=types.ToolAnnotations(
                read_only_hint=tool.read_only,
                destructive_hint=False,
                idempotent_hint=tool.read_only,
                open_world_hint=False,
            ),
        )
        for tool in tools
    ]


def _result(answer: object) -> types.CallToolResult:
    text = msgspec.json.encode(answer).decode()
    content = types.TextContent(type="text", text=text)
    return types.CallToolResult(content=[content], structured_content=msgspec.json.decode(text))


def _error_result(refused: Refused) -> types.CallToolResult:
    refusal = describe_refusal(refused)
    content = types.TextContent(type="text", text=format_refusal(refusal))
    return types.CallToolResult(content=[content], structured_content=refusal, is_error=True)
