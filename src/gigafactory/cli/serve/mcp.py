"""`aq mcp`: the fleet as tools of a coding agent."""

import os
from typing import TYPE_CHECKING

import click

from gigafactory.cli.session import Session, for_fleet
from gigafactory.domain.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from gigafactory.client.transport.async_client import AsyncClient

EXTRA = "the tools for agents need an extra: pip install 'gigafactory[mcp]'"


@click.command()
@click.option("--job", metavar="JOB", help="The job whose agent asks; AQ_JOB_ID by default.")
@for_fleet
def mcp(session: Session, *, job: str | None) -> None:
    """Serve the fleet to a coding agent: MCP over stdin and stdout, until stdin ends.

    An agent in a run gets what its job's own token opens: its composite. Others get what the
    token of the settings opens.
    """
    import asyncio

    from gigafactory.client.transport.async_client import AsyncClient

    serve = _serve()
    there = session.access
    client = AsyncClient(there.url, there.token, product=there.product)
    asyncio.run(serve(client, job or os.environ.get("AQ_JOB_ID")))


def _serve() -> "Callable[[AsyncClient, str | None], Coroutine[None, None, None]]":
    try:
        from gigafactory.mcp.server import serve
    except ImportError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        raise Unavailable(EXTRA) from None
    return serve
