"""Scarcity: which pools are wanted by choosy jobs, so that other jobs leave them free."""

from collections.abc import Callable, Iterable

from gigafactory.domain.fleet.matching import Fit, Rejection
from gigafactory.domain.fleet.pool import Pool
from gigafactory.domain.queue.queued_job import JobClass

FEW = 0.5
"""A class is choosy when at most this fraction of the factories could run it."""

Suits = Callable[[JobClass, Pool], Fit | Rejection]


class Scarcity:
    """The pools that choosy classes wait for, for one state of the fleet and the queue."""

    def __init__(self, kinds: Iterable[JobClass], pools: Iterable[Pool], suits: Suits) -> None:
        self._suits = suits
        self._present = {pool: size for pool in pools if (size := pool.present_count)}
        self._few = FEW * sum(self._present.values())
        self._yields: dict[JobClass, bool] = {}
        self._wanted_pools: set[Pool] = set()
        """The pools that choosy classes wait for."""
        for kind in kinds:
            places = self._places(kind)
            if self._choosy(kind, places):
                self._wanted_pools.update(places)

    def should_yield(self, kind: JobClass) -> bool:
        """Return whether jobs of a class go after others, as they can run on a pool not wanted.

        A class that has no other pool does not yield, or it could wait forever.
        """
        if not self._wanted_pools:
            return False
        cached = self._yields.get(kind)
        if cached is None:
            places = self._places(kind)
            elsewhere = any(pool not in self._wanted_pools for pool in places)
            cached = self._yields[kind] = elsewhere and not self._choosy(kind, places)
        return cached

    def _places(self, kind: JobClass) -> list[Pool]:
        pinned = kind.required_factories
        return [
            pool
            for pool in self._present
            if isinstance(self._suits(kind, pool), Fit) and pinned <= pool.members.keys()
        ]

    def _choosy(self, kind: JobClass, places: Iterable[Pool]) -> bool:
        return (
            bool(kind.required_factories)
            or sum(self._present[pool] for pool in places) <= self._few
        )
