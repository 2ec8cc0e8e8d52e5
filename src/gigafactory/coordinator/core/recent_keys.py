"""Keys remembered in memory for a while, as many as fit."""

from collections.abc import Hashable
from datetime import datetime, timedelta

from gigafactory.coordinator.core.ports import Clock


class RecentKeys:
    """Keys that were added within a time; above a number, the oldest are forgotten first."""

    def __init__(self, clock: Clock, *, kept_for: timedelta, most: int) -> None:
        self._clock = clock
        self._lifetime = kept_for
        self._most = most
        self._added: dict[Hashable, datetime] = {}

    def add(self, key: Hashable) -> None:
        """Remember a key from now on."""
        self._added.setdefault(key, self._clock.now())
        if len(self._added) > self._most:
            del self._added[next(iter(self._added))]

    def contains(self, key: Hashable) -> bool:
        """Return whether the key is remembered."""
        at = self._added.get(key)
        if at is not None and self._clock.now() - at >= self._lifetime:
            del self._added[key]
            return False
        return at is not None
