"""The server: tools that an agent lists and calls, over stdin and stdout."""

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
from gigafactory.mcp.results import in_words, refusal_told
from gigafactory.mcp.tool import Fleet, Tool

FOR_AGENTS: tuple[Tool[Any], ...] = (
    jobs.SUBMIT,
    plans.HAND_IN,
    jobs.STATUS,
    plans.STATUS,
    logs.READ,
)
"""What a job's own token opens."""
FOR_PEOPLE = (*FOR_AGENTS, jobs.LIST)

INSTRUCTIONS = """\
Gigafactory is a fleet of machines on which coding agents work on jobs. A job is a piece of work \
with instructions of its own; a composite is the sum of its children. People review and ship; here \
you can hand jobs in, give a composite its plan, and see how jobs stand and what they have printed.\
"""


def tools_for(fleet: Fleet) -> Mapping[str, Tool[Any]]:
    """The tools of whoever asks, by their names."""
    found = FOR_PEOPLE if fleet.job is None else FOR_AGENTS
    return {tool.name: tool for tool in found}


def server(fleet: Fleet) -> Server[Any]:
    """A server of the tools on this fleet."""
    tools = tools_for(fleet)

    async def list_tools(
        _: ServerRequestContext[Any], _page: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_listed(tools.values()))

    async def call_tool(
        _: ServerRequestContext[Any], asked: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = tools.get(asked.name)
        if tool is None:
            there = ", ".join(tools)
            message = f"there is no tool {asked.name[:100]!r}; there are: {there}"
            raise MCPError(types.INVALID_PARAMS, message)
        try:
            return _told(await tool.use(fleet, asked.arguments or {}))
        except Refused as refused:
            return _refused(refused)

    return Server(
        "gigafactory",
        version=__version__,
        title="Gigafactory",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve(client: AsyncClient, job: str | None) -> None:
    """Answer what comes on stdin until it ends; `job` is the one whose agent asks."""
    # Nothing is kept here: whatever was asked for is done at the coordinator, or it is not.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    async with client, stdio_server() as (incoming, outgoing):
        served = server(Fleet(client, job))
        await served.run(incoming, outgoing, served.create_initialization_options())


def _listed(tools: Iterable[Tool[Any]]) -> list[types.Tool]:
    return [
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.tells,
            input_schema=tool.schema,
            annotations=types.ToolAnnotations(
                read_only_hint=tool.reads,
                destructive_hint=False,
                idempotent_hint=tool.reads,
                open_world_hint=False,
            ),
        )
        for tool in tools
    ]


def _told(answer: object) -> types.CallToolResult:
    text = msgspec.json.encode(answer).decode()
    content = types.TextContent(type="text", text=text)
    return types.CallToolResult(content=[content], structured_content=msgspec.json.decode(text))


def _refused(refused: Refused) -> types.CallToolResult:
    told = refusal_told(refused)
    content = types.TextContent(type="text", text=in_words(told))
    return types.CallToolResult(content=[content], structured_content=told, is_error=True)
