"""`aq mcp`: the fleet as MCP tools for coding agents."""

import os
from typing import TYPE_CHECKING

import click

from gigafactory.cli.session import Session, for_fleet
from gigafactory.domain.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from gigafactory.client.transport.async_client import AsyncClient

EXTRA = "the MCP server needs an extra: pip install 'gigafactory[mcp]'"


@click.command()
@click.option("--job", metavar="JOB", help="The job of the agent; default: AQ_JOB_ID.")
@for_fleet
def mcp(session: Session, *, job: str | None) -> None:
    """Serve the fleet as MCP tools over stdin and stdout, until stdin ends.

    The agent of a run can access its own composite. Other agents have the permissions of the
    configured token.
    """
    import asyncio

    from gigafactory.client.transport.async_client import AsyncClient

    serve = _serve()
    coordinator = session.access
    client = AsyncClient(coordinator.url, coordinator.token, product=coordinator.product)
    asyncio.run(serve(client, job or os.environ.get("AQ_JOB_ID")))


def _serve() -> "Callable[[AsyncClient, str | None], Coroutine[None, None, None]]":
    try:
        from gigafactory.mcp.server import serve
    except ImportError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        raise Unavailable(EXTRA) from None
    return serve
