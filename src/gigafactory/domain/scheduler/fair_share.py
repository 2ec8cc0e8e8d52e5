"""Whose turn it is: what each product had lately, over its share."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from gigafactory.domain.fleet.fleet_state import FleetView

ROUNDING = 1e-9


class Standing(NamedTuple):
    """What a product had lately, and how far its jobs may rise."""

    due: float | None
    """Its seat-time over its share: the least goes first. None when it gets nothing just now."""
    best: int
    """The rank above which none of its jobs rises."""


def standings(fleet: FleetView, urgency: Mapping[str, int], now: datetime) -> dict[str, Standing]:
    """Work out whose turn it is, and who of those that wait had more than its share."""
    used = {p: fleet.used(p, now) for p in urgency if fleet.stopped(p) is None}
    shares = {product_id: fleet.share(product_id) for product_id in used}
    level = sum(had * shares[p] for p, had in used.items())
    level = level / sum(shares.values()) * (1.0 + ROUNDING) if shares else 0.0
    return {
        p: Standing(fleet.due(p, now), urgency[p] if used[p] > level else 0)
        if p in used
        else Standing(None, 0)
        for p in urgency
    }
