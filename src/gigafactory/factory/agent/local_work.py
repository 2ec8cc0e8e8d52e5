"""What a factory may do beside its fleet's work: it shares the machine, and ends with the agent."""

from typing import Protocol

from gigafactory.factory.core.assignment import Outcome


class Beside(Protocol):
    """Other work on this machine."""

    @property
    def taken(self) -> int:
        """How many jobs it has begun with."""
        ...

    async def run(self) -> None:
        """Work for ever, or until it was told to rest."""
        ...

    async def quiet(self) -> None:
        """Come back when nothing of it runs."""
        ...

    def rest(self) -> None:
        """Take nothing new."""
        ...

    def stop(self) -> None:
        """Save what runs, and let it go at once."""
        ...

    def note(self, engine: str | None, outcome: Outcome) -> None:
        """Hear how a run of the fleet came out: its engine may need a rest."""
        ...


class Nothing:
    """No other work."""

    taken = 0

    async def run(self) -> None:
        """See the port; there is nothing to do."""

    async def quiet(self) -> None:
        """See the port."""

    def rest(self) -> None:
        """See the port."""

    def stop(self) -> None:
        """See the port."""

    def note(self, engine: str | None, outcome: Outcome) -> None:
        """See the port."""
