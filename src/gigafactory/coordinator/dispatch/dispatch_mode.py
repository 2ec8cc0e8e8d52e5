"""Show and set the dispatch mode of products: push, pull or shadow."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from gigafactory.coordinator.core.audit import audit_event
from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock, Store, all_records
from gigafactory.coordinator.dispatch.shadow_dispatcher import ShadowDispatcher
from gigafactory.coordinator.index.index import Index
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import FLEET, RecordChange
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller
from gigafactory.domain.tenancy.dispatch_mode import (
    DispatchMode,
    ShadowComparison,
    require_cut_over,
)
from gigafactory.domain.tenancy.product import Product


class ProductDispatch(msgspec.Struct, frozen=True, kw_only=True):
    """A product's dispatch mode, with the result of its last time in shadow mode."""

    product_id: str
    mode: DispatchMode = msgspec.field(name="way")
    comparison: ShadowComparison | None = None


class DispatchControl:
    """The calls that show and set dispatch modes."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        clock: Clock,
        index: Index,
        shadow: ShadowDispatcher,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._shadow = shadow

    async def show(self, caller: Caller) -> Sequence[ProductDispatch]:
        """Return the caller's chosen product, or all known products that it may see."""
        caller.require("read", OWN_PRODUCTS)
        await self._shadow.save_comparisons()
        await self._index.catch_up()
        comparisons = {
            each.product_id: each for each in await all_records(self._store, ShadowComparison)
        }
        product_ids = {
            *self._index.fleet.product_ids,
            *self._index.queue_versions,
            *comparisons,
        } - {FLEET}
        chosen = product_ids if caller.product is None else {caller.product}
        return [
            ProductDispatch(
                product_id=product_id,
                mode=self._index.dispatch_modes.mode_of(product_id),
                comparison=comparisons.get(product_id),
            )
            for product_id in sorted(chosen)
            if caller.can_see(product_id)
        ]

    async def set_mode(
        self, caller: Caller, product_id: str, mode: DispatchMode, *, force: bool = False
    ) -> ProductDispatch:
        """Set the dispatch mode of a product.

        Standing offers stay valid until they are accepted or expire. Raises Forbidden, NotFound,
        and Conflict for `push` before shadow mode has shown that the dispatcher decides as well.
        """
        caller.require_product("dispatch", product_id)
        await self._shadow.save_comparisons()

        async def decide() -> Plan[ProductDispatch]:
            now = self._clock.now()
            known = await self._store.record(Product, product_id)
            compared = await self._store.record(ShadowComparison, product_id)
            if known is not None and known.dispatch_mode is mode:
                return Plan(ProductDispatch(product_id=product_id, mode=mode, comparison=compared))
            before = (
                known.dispatch_mode if known is not None else None
            ) or self._index.dispatch_modes.default
            if mode is DispatchMode.PUSH and before is not DispatchMode.PUSH and not force:
                require_cut_over(product_id, compared)
            product = known or Product(id=product_id, rev=0)
            data = {"from": before, "way": mode, "forced": force}
            event = audit_event(
                event_types.DISPATCH_CHANGED, caller.actor, now, data, (product_id,)
            )
            after = replace(product, dispatch_mode=mode, rev=product.rev + 1)
            writes = [RecordChange(before=known, after=after, events=(event,))]
            if mode is DispatchMode.SHADOW and before is not DispatchMode.SHADOW:
                rev = compared.rev + 1 if compared is not None else 1
                fresh = ShadowComparison(product_id=product_id, since=now, rev=rev)
                writes.append(RecordChange(before=compared, after=fresh))
                compared = fresh
            return Plan(
                ProductDispatch(product_id=product_id, mode=mode, comparison=compared),
                tuple(writes),
            )

        request = (product_id, mode, force)
        dispatch = await self._committer.execute(
            caller, "dispatch", decide, ProductDispatch, request=request
        )
        await self._index.catch_up()
        return dispatch
