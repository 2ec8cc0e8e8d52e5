"""The dispatch mode of each product."""

from collections.abc import Callable, Collection

from gigafactory.domain.tenancy.dispatch_mode import DispatchMode
from gigafactory.domain.tenancy.product import Product


class DispatchModes:
    """The mode that each product has set, or else the default."""

    def __init__(self, usual: DispatchMode) -> None:
        self.default = usual
        self._chosen: dict[str, DispatchMode] = {}
        self.any_shadow = False
        """Whether any product is in shadow mode."""
        self.push_filter: Callable[[str], bool] | None = None
        """Returns whether a product's jobs are offered; None if all products are in push mode."""
        self._weigh()

    def put(self, product: Product) -> None:
        """Apply this version of a product."""
        if product.dispatch_mode is None:
            self._chosen.pop(product.id, None)
        else:
            self._chosen[product.id] = product.dispatch_mode
        self._weigh()

    def _weigh(self) -> None:
        modes = {self.default, *self._chosen.values()}
        self.any_shadow = DispatchMode.SHADOW in modes
        self.push_filter = (
            None
            if modes == {DispatchMode.PUSH}
            else lambda each: self.mode_of(each) is DispatchMode.PUSH
        )

    def mode_of(self, product_id: str) -> DispatchMode:
        """Return the dispatch mode of a product."""
        return self._chosen.get(product_id, self.default)

    def is_shadow(self, product_id: str) -> bool:
        """Return whether a product is in shadow mode."""
        return self.mode_of(product_id) is DispatchMode.SHADOW

    def must_poll(self, products: Collection[str]) -> bool:
        """Return whether a factory for these products must poll for jobs besides getting offers."""
        if self.push_filter is None:
            return False
        return "*" in products or any(
            self.mode_of(each) is not DispatchMode.PUSH for each in products
        )
