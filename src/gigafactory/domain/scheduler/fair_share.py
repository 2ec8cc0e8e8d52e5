"""Whose turn it is: what each product had lately, over its share."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from gigafactory.domain.fleet.fleet_state import FleetState

ROUNDING = 1e-9


class FairShare(NamedTuple):
    """What a product had lately, and how far its jobs may rise."""

    projected_usage: float | None
    """Its seat-time over its share: the least goes first. None when it gets nothing just now."""
    rank_limit: int
    """The rank above which none of its jobs rises."""


def fair_shares(
    fleet: FleetState, urgency: Mapping[str, int], now: datetime
) -> dict[str, FairShare]:
    """Work out whose turn it is, and who of those that wait had more than its share."""
    used = {p: fleet.seat_usage(p, now) for p in urgency if fleet.stop_reason(p) is None}
    shares = {product_id: fleet.share(product_id) for product_id in used}
    level = sum(had * shares[p] for p, had in used.items())
    level = level / sum(shares.values()) * (1.0 + ROUNDING) if shares else 0.0
    return {
        p: FairShare(fleet.projected_usage(p, now), urgency[p] if used[p] > level else 0)
        if p in used
        else FairShare(None, 0)
        for p in urgency
    }
