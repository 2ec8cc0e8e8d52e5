"""Reads of single rows that are asked for together, answered by one query in one round trip."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Gathered(Generic[K, V]):
    """Whoever asks in the same turn of the event loop shares a query.

    Nobody joins one that is under way: it might not see what was stored before they asked.
    """

    def __init__(self, fetch: Callable[[list[K]], Awaitable[Mapping[K, V]]]) -> None:
        """Ask by this, for the keys that were gathered."""
        self._fetch = fetch
        self._next: tuple[dict[K, None], asyncio.Task[Mapping[K, V]]] | None = None

    async def get(self, key: K) -> V | None:
        """What is stored under a key; None without it.

        Raises Unavailable.
        """
        if self._next is None:
            keys: dict[K, None] = {}
            self._next = (keys, asyncio.create_task(self._ask(keys), name="gathered-reads"))
        keys, found = self._next
        keys[key] = None
        # Whoever leaves must not take the answer from the others.
        return (await asyncio.shield(found)).get(key)

    async def _ask(self, keys: dict[K, None]) -> Mapping[K, V]:
        self._next = None
        return await self._fetch(list(keys))
