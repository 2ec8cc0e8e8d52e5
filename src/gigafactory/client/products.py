"""The calls on products."""

from collections.abc import Mapping, Sequence

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.wire.answers import Answer, Budget, Burndown


def budget(product_id: str) -> Call[Budget]:
    """What a product may spend, and has."""
    return Call(method="GET", path=path("budgets", product_id), answer=Budget)


def set_budget(
    product_id: str,
    ceiling_usd: str | None,
    *,
    period: str = "month",
    reserve_usd: str = "1",
    at_ceiling: str = "stop",
) -> Call[Budget]:
    """Set the ceiling of a product; None for no ceiling."""
    told = {
        "ceilingUsd": ceiling_usd,
        "period": period,
        "reserveUsd": reserve_usd,
        "atCeiling": at_ceiling,
    }
    where = path("budgets", product_id)
    return Call(method="PUT", path=where, answer=Budget, body=msgspec.json.encode(told))


def pause(product_id: str, reason: str = "") -> Call[Budget]:
    """Give nothing of a product out until it is resumed."""
    where = path("budgets", product_id, "pause")
    body = msgspec.json.encode({"reason": reason})
    return Call(method="POST", path=where, answer=Budget, body=body)


def resume(product_id: str) -> Call[Budget]:
    """Lift a pause."""
    return Call(method="POST", path=path("budgets", product_id, "resume"), answer=Budget)


def burndown(product_id: str) -> Call[Burndown]:
    """Day by day, how the budget of this period was spent."""
    return Call(method="GET", path=path("budgets", product_id, "burndown"), answer=Burndown)


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
