"""Where jobs could go at all, and which factories are kept for those that few others could run."""

from collections.abc import Callable, Iterable

from gigafactory.domain.fleet.matching import Fit, Rejection
from gigafactory.domain.fleet.pool import Pool
from gigafactory.domain.queue.queued_job import JobClass

FEW = 0.5
"""A class is choosy when no more than this share of the factories could run it."""

Suits = Callable[[JobClass, Pool], Fit | Rejection]


class Reach:
    """The places of each class, as the fleet and the kinds of waiting jobs are at one moment."""

    def __init__(self, kinds: Iterable[JobClass], pools: Iterable[Pool], suits: Suits) -> None:
        self._suits = suits
        self._present = {pool: size for pool in pools if (size := pool.present)}
        self._few = FEW * sum(self._present.values())
        self._yields: dict[JobClass, bool] = {}
        self._coveted: set[Pool] = set()
        """The shapes that choosy jobs wait for."""
        for kind in kinds:
            places = self._places(kind)
            if self._choosy(kind, places):
                self._coveted.update(places)

    def yields(self, kind: JobClass) -> bool:
        """Tell whether jobs of a class go after the others: they can run where no choosy one can.

        What has no such place to go does not yield, or it might wait for ever.
        """
        if not self._coveted:
            return False
        known = self._yields.get(kind)
        if known is None:
            places = self._places(kind)
            elsewhere = any(pool not in self._coveted for pool in places)
            known = self._yields[kind] = elsewhere and not self._choosy(kind, places)
        return known

    def _places(self, kind: JobClass) -> list[Pool]:
        pinned = kind.pinned
        return [
            pool
            for pool in self._present
            if isinstance(self._suits(kind, pool), Fit) and pinned <= pool.members.keys()
        ]

    def _choosy(self, kind: JobClass, places: Iterable[Pool]) -> bool:
        return bool(kind.pinned) or sum(self._present[pool] for pool in places) <= self._few
