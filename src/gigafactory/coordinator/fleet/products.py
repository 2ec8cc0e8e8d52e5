"""Products: which repos they own, their share of the fleet, their settings."""

from collections.abc import Sequence

from msgspec.structs import replace

from gigafactory.coordinator.core.audit import audit_event
from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock, Store, all_records
from gigafactory.domain.errors import NotFound
from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import RecordChange
from gigafactory.domain.tenancy.access import Caller
from gigafactory.domain.tenancy.product import Product


class Products:
    """The verbs on products; a product that nobody has set up exists with its defaults."""

    def __init__(self, store: Store, committer: Committer, clock: Clock) -> None:
        """Keep products in this store."""
        self._store = store
        self._committer = committer
        self._clock = clock

    async def get(self, caller: Caller, product_id: str) -> Product:
        """One product, as set up or with its defaults.

        Raises NotFound for what the caller may not see.
        """
        if not caller.can_see(product_id):
            raise NotFound("product", product_id)
        return await self._store.record(Product, product_id) or Product(id=product_id)

    async def all(self, caller: Caller) -> Sequence[Product]:
        """Every product that was set up, of those that the caller may see."""
        return [p for p in await all_records(self._store, Product) if caller.can_see(p.id)]

    async def put(self, caller: Caller, product: Product) -> Product:
        """Set a product up.

        Raises Forbidden, NotFound.
        """
        caller.require("products")

        async def decide() -> Plan[Product]:
            await self.get(caller, product.id)
            before = await self._store.record(Product, product.id)
            known = before or Product(id=product.id, rev=0)
            # Whoever sets a product up says nothing of how it is routed and dispatched.
            after = replace(
                product,
                uses_learned_routing=known.uses_learned_routing,
                dispatch_mode=known.dispatch_mode,
                rev=known.rev + 1,
            )
            event = audit_event(
                event_types.PRODUCT_CHANGED,
                caller.actor,
                self._clock.now(),
                {"product": product.id},
                product.id,
            )
            return Plan(after, (RecordChange(before=before, after=after, events=(event,)),))

        return await self._committer.execute(caller, "product", decide, Product, request=product)
