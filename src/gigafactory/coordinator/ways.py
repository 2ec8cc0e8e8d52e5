"""Which way the jobs of each product go, as a coordinator knows it."""

from collections.abc import Callable, Collection

from gigafactory.domain.product import Product
from gigafactory.domain.shadow import Way


class Ways:
    """The way of each product: the one that somebody has set, else the usual one."""

    def __init__(self, usual: Way) -> None:
        """Know none that was set."""
        self.usual = usual
        self._chosen: dict[str, Way] = {}

    def put(self, product: Product) -> None:
        """Know this version of a product."""
        if product.way is None:
            self._chosen.pop(product.id, None)
        else:
            self._chosen[product.id] = product.way

    def of(self, product_id: str) -> Way:
        """How a product's jobs reach factories."""
        return self._chosen.get(product_id, self.usual)

    @property
    def pushes(self) -> Callable[[str], bool] | None:
        """Tells whether a product's jobs are offered; None where all are."""
        if self.usual is Way.PUSH and all(way is Way.PUSH for way in self._chosen.values()):
            return None
        return lambda product_id: self.of(product_id) is Way.PUSH

    def shadows(self, product_id: str) -> bool:
        """Whether the dispatcher only decides about a product's jobs."""
        return self.of(product_id) is Way.SHADOW

    @property
    def shadowed(self) -> bool:
        """Whether it does so about any."""
        return Way.SHADOW in (self.usual, *self._chosen.values())

    def to_ask(self, products: Collection[str]) -> bool:
        """Whether a factory for these products has to ask for work, even if offers reach it."""
        if "*" in products:
            return any(way is not Way.PUSH for way in (self.usual, *self._chosen.values()))
        return any(self.of(product_id) is not Way.PUSH for product_id in products)
