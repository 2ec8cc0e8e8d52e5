"""What a factory may do beside its fleet's work: it shares the machine, and ends with the agent."""

from typing import Protocol

from gigafactory.factory.core.assignment import RunOutcome


class LocalWork(Protocol):
    """Other work on this machine."""

    @property
    def jobs_started(self) -> int:
        """How many jobs it has begun with."""
        ...

    async def run(self) -> None:
        """Work for ever, or until it was told to rest."""
        ...

    async def wait_idle(self) -> None:
        """Come back when nothing of it runs."""
        ...

    def drain(self) -> None:
        """Take nothing new."""
        ...

    def stop(self) -> None:
        """Save what runs, and let it go at once."""
        ...

    def record_outcome(self, engine: str | None, outcome: RunOutcome) -> None:
        """Hear how a run of the fleet came out: its engine may need a rest."""
        ...


class NoLocalWork:
    """No other work."""

    jobs_started = 0

    async def run(self) -> None:
        """Do nothing."""

    async def wait_idle(self) -> None:
        """Do nothing."""

    def drain(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def record_outcome(self, engine: str | None, outcome: RunOutcome) -> None:
        """Do nothing."""
