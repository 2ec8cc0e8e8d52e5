"""Coordinators as processes: started, stopped, killed and started again on the same store."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from gigafactory.coordinator.coordinator import Coordinator, CoordinatorSettings
from gigafactory.coordinator.core.stored_time import newest_stored_time
from gigafactory.dispatch.local import LocalDispatch
from gigafactory.domain.errors import Refused
from gigafactory.store.memory import MemoryStore
from tests.simulation.faulty_store import FaultyStore
from tests.simulation.history import History
from tests.simulation.ports import MemoryBlobs, SeededIds, simulated_clock
from tests.simulation.weather import Weather


class Node:
    """One coordinator's place; at most one process of it lives at a time."""

    def __init__(
        self,
        name: str,
        inner: MemoryStore,
        blobs: MemoryBlobs,
        rng: random.Random,
        history: History,
        settings: CoordinatorSettings,
        weather: Weather,
        ahead: "Ahead",
    ) -> None:
        """Stand ready to start."""
        self.name = name
        self.coordinator: Coordinator | None = None
        """The process that serves now; None while there is none."""
        self.up = asyncio.Event()
        self._inner = inner
        self._blobs = blobs
        self._rng = rng
        self._history = history
        self._settings = settings
        self._weather = weather
        self._ahead = ahead
        self._ids = SeededIds(rng, name)
        self._offset = rng.uniform(0.0, 0.2)
        self._away_until = 0.0
        self._store: FaultyStore | None = None
        self._process: asyncio.Task[None] | None = None
        # Not a set: its order is that of addresses, and then no seed could be replayed.
        self._handlers: dict[asyncio.Task[Any], None] = {}

    def start(self) -> None:
        """Start a process, unless there is one."""
        if self._process is None:
            self._process = asyncio.create_task(self._live())

    async def _live(self) -> None:
        while True:
            self._store = FaultyStore(
                self.name, self._inner, self._rng, self._history, self._weather
            )
            self._store.away_until = self._away_until
            clock = simulated_clock(
                lambda: self._offset + self._ahead.seconds, await newest_stored_time(self._inner)
            )
            coordinator = Coordinator(
                self._store,
                LocalDispatch(),
                self._blobs,
                clock,
                self._ids,
                settings=self._settings,
                builtin_profiles={},
            )
            try:
                async with coordinator.running():
                    self.coordinator = coordinator
                    self.up.set()
                    await asyncio.get_running_loop().create_future()
            except Refused:
                # The store was away at the start: what watches over the process starts it again.
                if self._process is not asyncio.current_task() or self._store.dead:
                    return
                await asyncio.sleep(1.0)
            finally:
                self.coordinator = None
                self.up.clear()

    def serve(self, handler: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a handler in this process: it ends with it."""
        task = asyncio.create_task(handler)
        self._handlers[task] = None
        task.add_done_callback(lambda done: self._handlers.pop(done, None))
        return task

    async def crash(self) -> None:
        """Kill the process: from this moment on nothing that it does has any effect."""
        self.freeze()
        await self.stop()

    async def stop(self) -> None:
        """End the process; unless it was killed, it tidies up as it does on a signal."""
        process, self._process = self._process, None
        self.coordinator = None
        tasks = [*self._handlers, *([process] if process else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def freeze(self) -> None:
        """Let nothing more happen to the store: the history is over."""
        if self._store is not None:
            self._store.dead = True

    def cut_off(self, until: float) -> None:
        """Have the store away for this process, and the next, until then."""
        self._away_until = until
        if self._store is not None:
            self._store.away_until = until

    def stall(self, until: float) -> None:
        """Have the process stand still until then, wherever it is."""
        if self._store is not None:
            self._store.still_until = until

    def clear_up(self, weather: Weather) -> None:
        """Have other weather from now on."""
        self._weather = weather
        self._away_until = 0.0
        if self._store is not None:
            self._store.weather = weather
            self._store.away_until = 0.0


class Ahead:
    """How far the wall clocks of all coordinators are ahead of the loop."""

    def __init__(self, seconds: float) -> None:
        """Begin so far ahead of the loop."""
        self.at_first = seconds
        self.seconds = seconds
