"""Which way the jobs of each product go, as a coordinator knows it."""

from collections.abc import Callable, Collection

from gigafactory.domain.tenancy.dispatch_mode import DispatchMode
from gigafactory.domain.tenancy.product import Product


class DispatchModes:
    """The way of each product: the one that somebody has set, else the usual one."""

    def __init__(self, usual: DispatchMode) -> None:
        """Know none that was set."""
        self.default = usual
        self._chosen: dict[str, DispatchMode] = {}
        self.any_shadow = False
        """Whether the dispatcher only decides about some product's jobs."""
        self.push_filter: Callable[[str], bool] | None = None
        """Tells whether a product's jobs are offered; None where all are."""
        self._weigh()

    def put(self, product: Product) -> None:
        """Know this version of a product."""
        if product.dispatch_mode is None:
            self._chosen.pop(product.id, None)
        else:
            self._chosen[product.id] = product.dispatch_mode
        self._weigh()

    def _weigh(self) -> None:
        """Work out once what every decision asks."""
        found = {self.default, *self._chosen.values()}
        self.any_shadow = DispatchMode.SHADOW in found
        self.push_filter = (
            None
            if found == {DispatchMode.PUSH}
            else lambda each: self.mode_of(each) is DispatchMode.PUSH
        )

    def mode_of(self, product_id: str) -> DispatchMode:
        """How a product's jobs reach factories."""
        return self._chosen.get(product_id, self.default)

    def is_shadow(self, product_id: str) -> bool:
        """Whether the dispatcher only decides about a product's jobs."""
        return self.mode_of(product_id) is DispatchMode.SHADOW

    def must_poll(self, products: Collection[str]) -> bool:
        """Whether a factory for these products has to ask for work, even if offers reach it."""
        if self.push_filter is None:
            return False
        return "*" in products or any(
            self.mode_of(each) is not DispatchMode.PUSH for each in products
        )
