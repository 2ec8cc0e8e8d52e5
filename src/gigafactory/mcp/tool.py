"""An MCP tool: name, arguments and implementation."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import Fault, Invalid

T = TypeVar("T")

Reference = Annotated[
    str,
    Meta(min_length=1, max_length=200, description="a job's id, or its name in the product"),
]
Key = Annotated[
    str,
    Meta(
        pattern=r"^[\x21-\x7e]{1,200}$(?!\n)",
        description="idempotency key: repeating a request with the same key creates nothing twice",
    ),
]


class ToolContext(msgspec.Struct, frozen=True):
    """The coordinator's client, and the id of the calling agent's job, if any."""

    client: AsyncClient
    job: str | None = None


class ToolArguments(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Arguments of a tool; unknown fields are refused."""


class McpTool(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """An operation that an agent can call."""

    name: str
    title: str
    description: str
    """What it does and when to use it, for the agent."""
    arguments: type[T]
    run: Callable[[ToolContext, T], Awaitable[object]]
    """Return the result for the agent; raises Refused."""
    read_only: bool = True

    async def call(self, fleet: ToolContext, given: dict[str, Any]) -> object:
        """Run the tool with these arguments.

        Raises Refused, and Invalid for wrong arguments.
        """
        try:
            arguments = msgspec.convert(given, self.arguments)
        except msgspec.ValidationError as wrong:
            message, _, location = str(wrong).partition(" - at `$")
            field = location.strip("`").removeprefix(".")
            raise Invalid(f"the call of {self.name}", [Fault(field, message)]) from None
        return await self.run(fleet, arguments)

    @property
    def schema(self) -> dict[str, Any]:
        """Return the self-contained JSON schema of the arguments."""
        _, parts = msgspec.json.schema_components((self.arguments,), ref_template="#/$defs/{name}")
        own: dict[str, Any] = parts.pop(self.arguments.__name__)
        own.pop("title", None)
        own.pop("description", None)
        return own | ({"$defs": parts} if parts else {})
