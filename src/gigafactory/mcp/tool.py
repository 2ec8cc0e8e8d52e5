"""A tool: its name, what it takes, and what it does with the fleet."""

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
        description="your own word for this request: sent again under it, nothing is made twice",
    ),
]


class Fleet(msgspec.Struct, frozen=True):
    """What tools work with: the coordinator, and the job whose agent asks, if it is one's."""

    client: AsyncClient
    job: str | None = None


class Takes(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of a tool; what they do not know is refused by name."""


class Tool(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Something that an agent can ask for."""

    name: str
    title: str
    tells: str
    """What it does and when to use it, in words for the agent."""
    takes: type[T]
    does: Callable[[Fleet, T], Awaitable[object]]
    """Gives what the agent is told; raises Refused."""
    reads: bool = True
    """Whether it leaves everything as it is."""

    async def use(self, fleet: Fleet, given: dict[str, Any]) -> object:
        """Do it with these arguments.

        Raises Refused, and Invalid for arguments that it does not take.
        """
        try:
            asked = msgspec.convert(given, self.takes)
        except msgspec.ValidationError as wrong:
            message, _, place = str(wrong).partition(" - at `$")
            field = place.strip("`").removeprefix(".")
            raise Invalid(f"the call of {self.name}", [Fault(field, message)]) from None
        return await self.does(fleet, asked)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments, an object that stands for itself."""
        _, parts = msgspec.json.schema_components((self.takes,), ref_template="#/$defs/{name}")
        own: dict[str, Any] = parts.pop(self.takes.__name__)
        own.pop("title", None)
        own.pop("description", None)
        return own | ({"$defs": parts} if parts else {})
