"""Calls on products and their budgets."""

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.wire.budgets import BudgetDoc, BudgetView, BurndownView, PauseDoc
from gigafactory.wire.products import ProductDoc, ProductsView, ProductView


def budget(product_id: str) -> ApiCall[BudgetView]:
    """Return the budget of a product."""
    return ApiCall(method="GET", path=path("budgets", product_id), response_type=BudgetView)


def set_budget(product_id: str, doc: BudgetDoc) -> ApiCall[BudgetView]:
    """Set the budget of a product."""
    where = path("budgets", product_id)
    return ApiCall(
        method="PUT", path=where, response_type=BudgetView, body=msgspec.json.encode(doc)
    )


def pause(product_id: str, reason: str = "") -> ApiCall[BudgetView]:
    """Pause a product: no new work until it is resumed."""
    where = path("budgets", product_id, "pause")
    body = msgspec.json.encode(PauseDoc(reason=reason))
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


def set_product(product_id: str, doc: ProductDoc) -> ApiCall[ProductView]:
    """Configure a product; omitted settings get their defaults."""
    where = path("products", product_id)
    return ApiCall(
        method="PUT", path=where, response_type=ProductView, body=msgspec.json.encode(doc)
    )
