"""The calls on budgets."""

import msgspec

from gigafactory.client.answers import Budget, Burndown
from gigafactory.client.call import Call, path


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
