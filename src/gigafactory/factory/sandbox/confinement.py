"""Confines a program with the tool of this system, and opens its way to the allowed hosts."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from gigafactory.factory.process.spawn import Program
from gigafactory.factory.sandbox.egress import Egress
from gigafactory.factory.sandbox.egress_proxy import EgressProxy
from gigafactory.factory.sandbox.filesystem import Mount


class SandboxTool(Protocol):
    """The system's tool to confine a program."""

    @property
    def own_network(self) -> bool:
        """Whether a program without network access has its own loopback interface."""
        ...

    def wrap(self, program: Program, mounts: Sequence[Mount], *, network: bool) -> Program:
        """Return the program, wrapped so that it sees only these mounts."""
        ...


@contextlib.asynccontextmanager
async def confine(
    tool: SandboxTool,
    program: Program,
    mounts: Sequence[Mount],
    *,
    egress: Egress | None,
    report: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Program]:
    """Yield the program as it has to be started; it is served while the block lasts.

    Without `egress` it shares the machine's network. `report` is called for forbidden hosts.
    """
    if egress is None or not tool.own_network:
        yield tool.wrap(program, mounts, network=egress is None)
        return
    async with EgressProxy(egress, report) as gateway:
        yield tool.wrap(gateway.wrap(program), mounts, network=False)
