"""Products: their repos, their share of the fleet and their settings."""

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
    """Actions on products; a product that was never set up has the defaults."""

    def __init__(self, store: Store, committer: Committer, clock: Clock) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock

    async def get(self, caller: Caller, product_id: str) -> Product:
        """Return a product, as set up or with its defaults.

        Raises NotFound for what the caller may not see.
        """
        if not caller.can_see(product_id):
            raise NotFound("product", product_id)
        return await self._store.record(Product, product_id) or Product(id=product_id)

    async def all(self, caller: Caller) -> Sequence[Product]:
        """Return every product that was set up and that the caller may see."""
        return [p for p in await all_records(self._store, Product) if caller.can_see(p.id)]

    async def put(self, caller: Caller, product: Product) -> Product:
        """Create or replace a product.

        Raises Forbidden, NotFound.
        """
        caller.require_product("products", product.id)

        async def decide() -> Plan[Product]:
            before = await self._store.record(Product, product.id)
            current = before or Product(id=product.id, rev=0)
            # Setting up a product changes neither its routing nor its dispatch mode.
            after = replace(
                product,
                uses_learned_routing=current.uses_learned_routing,
                dispatch_mode=current.dispatch_mode,
                rev=current.rev + 1,
            )
            event = audit_event(
                event_types.PRODUCT_CHANGED,
                caller.actor,
                self._clock.now(),
                {"product": product.id},
                (product.id,),
            )
            return Plan(after, (RecordChange(before=before, after=after, events=(event,)),))

        return await self._committer.execute(caller, "product", decide, Product, request=product)
