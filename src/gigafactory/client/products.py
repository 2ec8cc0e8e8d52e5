"""Calls on products and their budgets."""

from collections.abc import Mapping, Sequence

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.wire.budgets import BudgetView, BurndownView
from gigafactory.wire.products import ProductsView, ProductView


def budget(product_id: str) -> ApiCall[BudgetView]:
    """Return the budget of a product."""
    return ApiCall(method="GET", path=path("budgets", product_id), response_type=BudgetView)


def set_budget(
    product_id: str,
    ceiling_usd: str | None,
    *,
    period: str = "month",
    reserve_usd: str = "1",
    at_ceiling: str = "stop",
) -> ApiCall[BudgetView]:
    """Set the ceiling of a product; None for no ceiling."""
    doc = {
        "ceilingUsd": ceiling_usd,
        "period": period,
        "reserveUsd": reserve_usd,
        "atCeiling": at_ceiling,
    }
    where = path("budgets", product_id)
    return ApiCall(
        method="PUT", path=where, response_type=BudgetView, body=msgspec.json.encode(doc)
    )


def pause(product_id: str, reason: str = "") -> ApiCall[BudgetView]:
    """Pause a product: no new work until it is resumed."""
    where = path("budgets", product_id, "pause")
    body = msgspec.json.encode({"reason": reason})
    return ApiCall(method="POST", path=where, response_type=BudgetView, body=body)


def resume(product_id: str) -> ApiCall[BudgetView]:
    """Lift a pause."""
    return ApiCall(
        method="POST", path=path("budgets", product_id, "resume"), response_type=BudgetView
    )


def burndown(product_id: str) -> ApiCall[BurndownView]:
    """Return the spending of the current period by day."""
    return ApiCall(
        method="GET", path=path("budgets", product_id, "burndown"), response_type=BurndownView
    )


def products() -> ApiCall[ProductsView]:
    """List the configured products."""
    return ApiCall(method="GET", path=path("products"), response_type=ProductsView)


def product(product_id: str) -> ApiCall[ProductView]:
    """Return one product, as configured or with its defaults."""
    return ApiCall(method="GET", path=path("products", product_id), response_type=ProductView)


def set_product(
    product_id: str,
    *,
    repos: Sequence[str] = (),
    share: float = 1.0,
    weights: Mapping[str, float] | None = None,
    protected_paths: Sequence[str] = (),
    target_wait: Mapping[str, str] | None = None,
) -> ApiCall[ProductView]:
    """Configure a product; omitted settings get their defaults."""
    doc = {
        "repos": repos,
        "share": share,
        "weights": weights or {},
        "protectedPaths": protected_paths,
        "targetWait": target_wait or {},
    }
    where = path("products", product_id)
    return ApiCall(
        method="PUT", path=where, response_type=ProductView, body=msgspec.json.encode(doc)
    )
