"""Recent seat time of each product, with exponential decay: the input of the fair share."""

import math
from datetime import UTC, datetime

from gigafactory.domain.job.change import FLEET

HALF_LIFE_S = 1800.0
BEGUN_S = 60.0
"""Seconds counted for a run at its start, so that no product takes all free seats at once."""
REBASE_AFTER = 64
"""Half-lives after which the sums are scaled down, before they overflow."""

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_AREA_S = HALF_LIFE_S / math.log(2)


class SeatUsage:
    """The seat-seconds of each product, halved every half-life.

    A seat used from a to b counts now for the area under 2^-(now-t)/half-life between a and b. In
    sum this needs only the number of running jobs and one sum of powers per product.
    """

    def __init__(self) -> None:
        self._live: dict[str, int] = {}
        self._sums: dict[str, float] = {}
        self._starts = 0.0
        self._base = 0

    def start(self, product_id: str, at: datetime) -> None:
        """Record that a run of the product took a seat."""
        for key in (product_id, FLEET):
            self._live[key] = self._live.get(key, 0) + 1
            power = self._add(key, at, 1.0)
        self._starts += power

    def end(self, product_id: str, at: datetime) -> None:
        """Record that a run of the product left its seat."""
        for key in (product_id, FLEET):
            live = self._live[key] - 1
            if live:
                self._live[key] = live
            else:
                del self._live[key]
            self._add(key, at, -1.0)

    def used(self, product_id: str, now: datetime) -> float:
        """Return the decayed seat-seconds of a product, plus a minute for each current run."""
        live = self._live.get(product_id, 0)
        past = self._sums.get(product_id, 0.0) * self._fade(now)
        # Rounded, so that the order of summation does not matter.
        return round(max(0.0, _AREA_S * (live - past)) + BEGUN_S * live, 3)

    def typical(self, now: datetime) -> float:
        """Return the recent mean seat-seconds per run of the fleet; 0 before the first run."""
        starts = self._starts * self._fade(now)
        used = self.used(FLEET, now)
        return round(min(_AREA_S, used / starts), 3) if starts else 0.0

    def _fade(self, now: datetime) -> float:
        return math.pow(2.0, -max(_half_lives(now) - self._base, -float(REBASE_AFTER)))

    def _add(self, product_id: str, at: datetime, sign: float) -> float:
        when = _half_lives(at)
        if when - self._base > REBASE_AFTER:
            self._rebase(int(when))
        power = sign * math.pow(2.0, when - self._base)
        self._sums[product_id] = self._sums.get(product_id, 0.0) + power
        return power

    def _rebase(self, base: int) -> None:
        shift = self._base - base
        scaled = {product: math.ldexp(total, shift) for product, total in self._sums.items()}
        self._sums = {product: total for product, total in scaled.items() if total}
        self._starts = math.ldexp(self._starts, shift)
        self._base = base


def _half_lives(at: datetime) -> float:
    return (at - _EPOCH).total_seconds() / HALF_LIFE_S
