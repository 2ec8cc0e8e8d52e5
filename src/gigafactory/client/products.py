"""The calls on products."""

from collections.abc import Mapping, Sequence

import msgspec

from gigafactory.client.answers import Answer
from gigafactory.client.call import Call, path


class Product(Answer, frozen=True):
    """A product and its settings."""

    id: str
    repos: tuple[str, ...]
    """Those that it owns; empty: any may be named."""
    share: float
    weights: dict[str, float]
    """How much each term of the score counts."""
    protected_paths: tuple[str, ...]
    target_wait: dict[str, str]
    """How long a job of a priority should wait at most, as `5m`."""


class Products(Answer, frozen=True):
    """Those that the token covers."""

    products: tuple[Product, ...]


def products() -> Call[Products]:
    """The products that were set up."""
    return Call(method="GET", path=path("products"), answer=Products)


def product(product_id: str) -> Call[Product]:
    """One product, as set up or with its defaults."""
    return Call(method="GET", path=path("products", product_id), answer=Product)


def set_product(
    product_id: str,
    *,
    repos: Sequence[str] = (),
    share: float = 1.0,
    weights: Mapping[str, float] | None = None,
    protected_paths: Sequence[str] = (),
    target_wait: Mapping[str, str] | None = None,
) -> Call[Product]:
    """Set a product up; what is not given has its default."""
    told = {
        "repos": repos,
        "share": share,
        "weights": weights or {},
        "protectedPaths": protected_paths,
        "targetWait": target_wait or {},
    }
    where = path("products", product_id)
    return Call(method="PUT", path=where, answer=Product, body=msgspec.json.encode(told))
