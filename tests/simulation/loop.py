"""A simulated event loop: time jumps, and any ready task may run first."""

import asyncio
import heapq
import random
from asyncio import Handle, TimerHandle
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVarTuple

Args = TypeVarTuple("Args")

STEPS_AT_ONCE_MAX = 20_000
"""The number of steps without progress of time that counts as spinning."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop with a seeded order of ready tasks; time jumps when no task is ready."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._draw = rng.random
        self._moment = 0.0
        self._ready_now: list[Handle] = []
        self._timers: list[tuple[float, int, TimerHandle]] = []
        self._numbers = 0
        self._steps_at_once = 0
        self.spinning: list[str] = []
        """The tasks that ran on without progress of time; each is a finding."""

    def time(self) -> float:
        """Return the simulated time in seconds since the start."""
        return self._moment

    def call_soon(
        self,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> Handle:
        """Make a callback ready; other ready callbacks may run first."""
        handle = Handle(callback, args, self, context)
        self._ready_now.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> TimerHandle:
        """Make a callback ready at a simulated time."""
        timer = TimerHandle(when, callback, args, self, context)
        self._numbers += 1
        heapq.heappush(self._timers, (when, self._numbers, timer))
        return timer

    def _run_once(self) -> None:
        ready = self._ready_now
        if not ready:
            self._jump()
        if not ready:
            message = "no task is ready and no timer is set: deadlock"
            raise RuntimeError(message)
        self._steps_at_once += 1
        if self._steps_at_once > STEPS_AT_ONCE_MAX:
            self._break_out()
        # Swapping the chosen handle with the last one makes its removal cheap.
        chosen = int(self._draw() * len(ready))
        ready[chosen], ready[-1] = ready[-1], ready[chosen]
        handle = ready.pop()
        if not handle.cancelled():
            handle._run()  # noqa: SLF001 - what every event loop does with its handles

    def _jump(self) -> None:
        """Advance time to the next timer and make ready all timers that are due."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers:
            return
        if timers[0][0] > self._moment:
            self._moment = timers[0][0]
            self._steps_at_once = 0
        self._wake()

    def _wake(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self._moment:
            self._ready_now.append(heapq.heappop(timers)[2])

    def _break_out(self) -> None:
        """Record the spinning tasks and advance time by a second so that the history can end."""
        busy = {
            f"{frame.f_code.co_qualname}:{frame.f_lineno}"
            for task in asyncio.all_tasks(self)
            if getattr(task, "_fut_waiter", None) is None
            for frame in task.get_stack()[-1:]
        }
        self.spinning.append(
            f"time stands still at {self._moment:.3f} s: {', '.join(sorted(busy))}"
        )
        self._moment += 1.0
        self._steps_at_once = 0
        self._wake()

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        """Ignore the cancellation; cancelled timers are dropped when they are due."""


def run_virtual(rng: random.Random, main: Coroutine[Any, Any, object]) -> list[str]:
    """Run a coroutine to its end in a new loop and return the spinning tasks."""
    loop = VirtualLoop(rng)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main)
    return loop.spinning
