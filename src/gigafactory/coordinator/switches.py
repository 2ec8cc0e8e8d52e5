"""The kill switch: after a halt is acknowledged there is not one more grant or offer."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from gigafactory.coordinator.all_records import all_records
from gigafactory.coordinator.audit import noted
from gigafactory.coordinator.index import Index
from gigafactory.coordinator.ledger import Ledger, Plan
from gigafactory.coordinator.ports import PAGE_MAX, Clock, JobQuery, Store
from gigafactory.domain.access import Caller
from gigafactory.domain.change import Saved
from gigafactory.domain.errors import Forbidden
from gigafactory.domain.job import RUNNING
from gigafactory.domain.lease import request_preemption
from gigafactory.domain.product import FLEET, Switch


class Switches:
    """The verbs `halt` and `resume`, for a product or for the whole fleet."""

    def __init__(self, store: Store, ledger: Ledger, clock: Clock, index: Index) -> None:
        """Keep the switches in this store."""
        self._store = store
        self._ledger = ledger
        self._clock = clock
        self._index = index

    async def turn(
        self, caller: Caller, product: str | None, *, halted: bool, reason: str = ""
    ) -> Switch:
        """Halt or resume; turned twice, it is as if turned once.

        Raises Forbidden for a product, or a fleet, that is not all the caller's.
        """
        caller.require("halt")
        key = product or FLEET
        if not caller.sees(key):
            raise Forbidden(
                f"{caller.actor} covers {', '.join(caller.products)}; name one of these"
            )

        async def decide() -> Plan[Switch]:
            now = self._clock.now()
            before = await self._store.record(Switch, key)
            if before is not None and before.halted == halted:
                return Plan(before)
            after = Switch(
                product_id=key,
                halted=halted,
                by=caller.actor,
                reason=reason,
                at=now,
                rev=before.rev + 1 if before else 1,
            )
            kind = "halted" if halted else "resumed"
            event = noted(kind, caller.actor, now, {"product": key, "reason": reason}, key)
            return Plan(after, (Saved(before=before, after=after, events=(event,)),))

        request = (key, halted)
        switch = await self._ledger.settle(caller, "halt", decide, Switch, request=request)
        await self._index.refresh_switches()
        return switch

    async def all(self, caller: Caller) -> Sequence[Switch]:
        """The switches that concern what the caller sees; those that are off too."""
        found = await all_records(self._store, Switch)
        return [s for s in found if s.product_id == FLEET or caller.sees(s.product_id)]

    async def stop(self, caller: Caller, product: str | None) -> int:
        """Ask the workers of all running jobs to checkpoint and hand back; how many there were.

        Raises Forbidden.
        """
        caller.require("halt")
        products = (product,) if product else None
        query = JobQuery(products=products, stages=tuple(RUNNING), limit=PAGE_MAX)
        asked = 0
        while page := await self._store.find(query):
            await asyncio.gather(*(self._stop(caller, job.id) for job in page))
            asked += len(page)
            query = replace(query, after=page[-1].id)
        return asked

    async def _stop(self, caller: Caller, job_id: str) -> None:
        async def decide() -> Plan[None]:
            job = await self._store.job(job_id)
            if job is None or job.stage not in RUNNING or job.preemption is not None:
                return Plan(None)
            change = request_preemption(job, caller.actor, "halted", now=self._clock.now())
            return Plan(None, (change,))

        await self._ledger.settle(replace(caller, request_key=None), "stop", decide, type(None))
