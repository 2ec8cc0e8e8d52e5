"""Who else uses the machine that a runner of a folder works on."""

from collections.abc import Iterable
from typing import Protocol


class Neighbours(Protocol):
    """Who else uses this machine."""

    def may(self, engine: str | None) -> bool:
        """Whether a run with this engine (None: without one) may begin now."""
        ...

    def begun(self, engine: str | None) -> None:
        """A run has begun."""
        ...

    def ended(self) -> None:
        """A run has ended, and nothing is left of it."""
        ...

    def looked(self, engines: Iterable[str | None]) -> None:
        """For these engines jobs wait that could begin if others left them room."""
        ...


class Nobody:
    """The machine is ours alone."""

    def may(self, engine: str | None) -> bool:  # noqa: ARG002 - the port's
        """See the port."""
        return True

    def begun(self, engine: str | None) -> None:
        """See the port."""

    def ended(self) -> None:
        """See the port."""

    def looked(self, engines: Iterable[str | None]) -> None:
        """See the port."""
