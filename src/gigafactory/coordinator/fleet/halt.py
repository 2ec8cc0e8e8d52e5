"""The halt switch: after a halt is acknowledged, no job is granted or offered."""

from collections.abc import Sequence

from gigafactory.coordinator.core.audit import audit_event
from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock, Store, all_records
from gigafactory.coordinator.fleet.stop_running import StopRequests
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FLEET, RecordChange
from gigafactory.domain.tenancy.access import Caller
from gigafactory.domain.tenancy.halt_switch import HaltSwitch


class HaltSwitches:
    """Halts and resumes a product or the whole fleet."""

    def __init__(
        self, store: Store, committer: Committer, clock: Clock, index: Index, stops: StopRequests
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._stops = stops

    async def set_halted(
        self, caller: Caller, product: str | None, *, halted: bool, reason: str = ""
    ) -> HaltSwitch:
        """Halt or resume; the call is idempotent.

        Raises Forbidden for a fleet that is not all the caller's, NotFound for a product.
        """
        key = product or FLEET
        caller.require_product("halt", key)

        async def decide() -> Plan[HaltSwitch]:
            now = self._clock.now()
            before = await self._store.record(HaltSwitch, key)
            if before is not None and before.halted == halted:
                return Plan(before)
            after = HaltSwitch(
                product_id=key,
                halted=halted,
                by=caller.actor,
                reason=reason,
                at=now,
                rev=before.rev + 1 if before else 1,
            )
            kind = event_types.HALTED if halted else event_types.RESUMED
            event = audit_event(kind, caller.actor, now, {"product": key, "reason": reason}, (key,))
            return Plan(after, (RecordChange(before=before, after=after, events=(event,)),))

        request = (key, halted)
        switch = await self._committer.execute(caller, "halt", decide, HaltSwitch, request=request)
        await self._index.refresh(HaltSwitch, key)
        return switch

    async def all(self, caller: Caller) -> Sequence[HaltSwitch]:
        """Return the switches of the fleet and of the caller's products, on or off."""
        switches = await all_records(self._store, HaltSwitch)
        return [s for s in switches if s.product_id == FLEET or caller.can_see(s.product_id)]

    async def stop_running(self, caller: Caller, product: str | None) -> int:
        """Ask all running jobs to checkpoint and hand back; return how many there were.

        Raises Forbidden, NotFound.
        """
        caller.require_product("halt", product or FLEET)
        return await self._stops.send_to_product(caller, product, "halted")
