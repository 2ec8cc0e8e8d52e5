"""Weighted fair share: recent seat time of each product divided by its weight."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from gigafactory.domain.fleet.fleet_state import FleetState

ROUNDING = 1e-9


class FairShare(NamedTuple):
    """The fair-share standing of a product: its usage, and how far its jobs may age."""

    projected_usage: float | None
    """Projected seat time divided by its share; the lowest goes first. None when stopped."""
    rank_limit: int
    """The best rank its jobs can reach by ageing; 0 (the best) unless it is over its share."""


def fair_shares(
    fleet: FleetState, urgency: Mapping[str, int], now: datetime
) -> dict[str, FairShare]:
    """Return the fair share of each product with queued jobs, given its most urgent rank."""
    used = {p: fleet.seat_usage(p, now) for p in urgency if fleet.stop_reason(p) is None}
    shares = {product_id: fleet.share(product_id) for product_id in used}
    level = sum(usage * shares[p] for p, usage in used.items())
    level = level / sum(shares.values()) * (1.0 + ROUNDING) if shares else 0.0
    return {
        p: FairShare(fleet.projected_usage(p, now), urgency[p] if used[p] > level else 0)
        if p in used
        else FairShare(None, 0)
        for p in urgency
    }
