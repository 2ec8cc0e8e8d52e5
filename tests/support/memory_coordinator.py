"""Coordinators on one in-memory store with a manual clock."""

from datetime import datetime
from pathlib import Path

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.fleet.factory import Pressure
from gigafactory.domain.tenancy.access import Caller
from gigafactory.store.memory import MemoryStore
from tests.support.api_server import SYSTEM, a_coordinator
from tests.support.builders import a_factory, after

MAC = Caller(actor="factory:mac-1", factory_id="mac-1", products=("*",))


class ManualClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.step_s = 0.0
        """The time that passes with each reading."""

    def now(self) -> datetime:
        self.seconds += self.step_s
        return after(self.seconds)


class CoordinatorHarness:
    """Starts coordinators on one store; tests run their duties step by step."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        self._folder = folder

    async def coordinator(self) -> Coordinator:
        """Start a coordinator."""
        fleet = a_coordinator(self._folder, store=self.store, clock=self.clock)
        await fleet.load()
        return fleet

    async def with_factory(self) -> Coordinator:
        """Start a coordinator that has stored a heartbeat of mac-1."""
        fleet = await self.coordinator()
        await self.enroll(fleet, "mac-1")
        await fleet.factories.heartbeat(MAC, a_factory(), Pressure(disk=0.5), ())
        await fleet.factories.save_last_seen()
        return fleet

    async def enroll(self, fleet: Coordinator, factory_id: str) -> None:
        """Enroll a factory."""
        invited = await fleet.enrolment.invite(SYSTEM, ("*",))
        await fleet.enrolment.enroll(invited.secret, factory_id)
        await fleet.index.catch_up()
