"""Coordinator processes: started, stopped, killed and restarted on the same store."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from gigafactory.coordinator.coordinator import Coordinator, CoordinatorSettings
from gigafactory.coordinator.core.stored_time import newest_stored_time
from gigafactory.dispatch.local import LocalDispatch
from gigafactory.domain.errors import Refused
from gigafactory.store.memory import MemoryStore
from tests.simulation.faults import FaultRates
from tests.simulation.faulty_store import FaultyStore
from tests.simulation.history import History
from tests.simulation.ports import MemoryBlobs, SeededIds, simulated_clock


class Node:
    """One coordinator with at most one running process."""

    def __init__(
        self,
        name: str,
        inner: MemoryStore,
        blobs: MemoryBlobs,
        rng: random.Random,
        history: History,
        settings: CoordinatorSettings,
        faults: FaultRates,
        clock_offset: "ClockOffset",
    ) -> None:
        """Create the node without a process."""
        self.name = name
        self.coordinator: Coordinator | None = None
        """The serving process; None while there is none."""
        self.up = asyncio.Event()
        self._inner = inner
        self._blobs = blobs
        self._rng = rng
        self._history = history
        self._settings = settings
        self._faults = faults
        self._clock_offset = clock_offset
        self._ids = SeededIds(rng, name)
        self._offset = rng.uniform(0.0, 0.2)
        self._down_until = 0.0
        self._store: FaultyStore | None = None
        self._process: asyncio.Task[None] | None = None
        # Not a set: sets iterate in the order of addresses, so no seed could be replayed.
        self._handlers: dict[asyncio.Task[Any], None] = {}

    def start(self) -> None:
        """Start a process unless there is one."""
        if self._process is None:
            self._process = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            self._store = FaultyStore(
                self.name, self._inner, self._rng, self._history, self._faults
            )
            self._store.down_until = self._down_until
            clock = simulated_clock(
                lambda: self._offset + self._clock_offset.seconds,
                await newest_stored_time(self._inner),
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
                # The store was down at the start: the process supervisor starts it again.
                if self._process is not asyncio.current_task() or self._store.dead:
                    return
                await asyncio.sleep(1.0)
            finally:
                self.coordinator = None
                self.up.clear()

    def serve(self, handler: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a handler in this process; it ends with the process."""
        task = asyncio.create_task(handler)
        self._handlers[task] = None
        task.add_done_callback(lambda done: self._handlers.pop(done, None))
        return task

    async def crash(self) -> None:
        """Kill the process; none of its later actions has an effect."""
        self.freeze()
        await self.stop()

    async def stop(self) -> None:
        """End the process; unless it was killed, it shuts down as on a signal."""
        process, self._process = self._process, None
        self.coordinator = None
        tasks = [*self._handlers, *([process] if process else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def freeze(self) -> None:
        """Refuse all further access of the process to the store."""
        if self._store is not None:
            self._store.dead = True

    def disconnect_store(self, until: float) -> None:
        """Disconnect the store from this process and the next until a time."""
        self._down_until = until
        if self._store is not None:
            self._store.down_until = until

    def stall(self, until: float) -> None:
        """Stall the process until a time."""
        if self._store is not None:
            self._store.stalled_until = until

    def set_fault_rates(self, faults: FaultRates) -> None:
        """Apply these fault rates from now on."""
        self._faults = faults
        self._down_until = 0.0
        if self._store is not None:
            self._store.faults = faults
            self._store.down_until = 0.0


class ClockOffset:
    """The offset of all coordinators' wall clocks to the loop's time."""

    def __init__(self, seconds: float) -> None:
        """Start with this offset."""
        self.initial_seconds = seconds
        self.seconds = seconds
