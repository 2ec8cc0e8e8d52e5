"""One store in memory, a clock that is set by hand, and coordinators that come and go there."""

from datetime import datetime
from pathlib import Path

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.domain.fleet.factory import Pressure
from gigafactory.domain.tenancy.access import Caller
from gigafactory.store.memory import MemoryStore
from tests.support.api_server import SYSTEM, a_coordinator
from tests.support.builders import a_factory, after

MAC = Caller(actor="factory:mac-1", factory_id="mac-1", products=("*",))


class SetClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.passes_s = 0.0
        """How much time goes by with each look."""

    def now(self) -> datetime:
        self.seconds += self.passes_s
        return after(self.seconds)


class House:
    """Where coordinators are started one after the other; their duties are done by hand."""

    def __init__(self, folder: Path) -> None:
        self.clock = SetClock()
        self.store = MemoryStore()
        self._folder = folder

    async def coordinator(self) -> Coordinator:
        """A coordinator that has just been started."""
        fleet = a_coordinator(self._folder, store=self.store, clock=self.clock)
        await fleet.load()
        return fleet

    async def with_factory(self) -> Coordinator:
        """The first coordinator, in which mac-1 has sent a heartbeat that was written."""
        fleet = await self.coordinator()
        await self.enroll(fleet, "mac-1")
        await fleet.factories.heartbeat(MAC, a_factory(), Pressure(disk=0.5), ())
        await fleet.factories.save_last_seen()
        return fleet

    async def enroll(self, fleet: Coordinator, factory_id: str) -> None:
        """Have a machine join."""
        invited = await fleet.enrolment.invite(SYSTEM, ("*",))
        await fleet.enrolment.enroll(invited.secret, factory_id)
        await fleet.index.catch_up()
