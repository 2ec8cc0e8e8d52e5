"""A program in the sandbox of this system: with the network, or with one way out to the allowed."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from gigafactory.factory.process.spawn import Program
from gigafactory.factory.sandbox.egress import WaysOut
from gigafactory.factory.sandbox.egress_proxy import Gateway
from gigafactory.factory.sandbox.filesystem import Place


class Tool(Protocol):
    """What the system has to confine a program."""

    @property
    def own_network(self) -> bool:
        """Whether a program without the network has a loopback to itself."""
        ...

    def wrap(self, program: Program, seen: Sequence[Place], *, network: bool) -> Program:
        """The same program, seeing only what it may."""
        ...


@contextlib.asynccontextmanager
async def confined(
    tool: Tool,
    program: Program,
    seen: Sequence[Place],
    *,
    ways: WaysOut | None,
    tell: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Program]:
    """The program as it has to be started, while the block lasts.

    Without `ways` it shares the machine's network. `tell` hears of hosts that are not allowed.
    """
    if ways is None or not tool.own_network:
        yield tool.wrap(program, seen, network=ways is None)
        return
    async with Gateway(ways, tell) as gateway:
        yield tool.wrap(gateway.entered_by(program), seen, network=False)
