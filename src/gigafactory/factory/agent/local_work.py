"""Protocol for local work that shares this machine with fleet jobs."""

from typing import Protocol

from gigafactory.factory.core.assignment import RunOutcome


class LocalWork(Protocol):
    """Local work on this machine, next to the fleet's."""

    @property
    def jobs_started(self) -> int:
        """Number of jobs started so far."""
        ...

    async def run(self) -> None:
        """Work until drained."""
        ...

    async def wait_idle(self) -> None:
        """Wait until no local run is active."""
        ...

    def drain(self) -> None:
        """Take no new work."""
        ...

    def stop(self) -> None:
        """Save and stop all local runs now."""
        ...

    def record_outcome(self, engine: str | None, outcome: RunOutcome) -> None:
        """Record the outcome of a fleet run: its engine may need a pause."""
        ...


class NoLocalWork:
    """No local work."""

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
