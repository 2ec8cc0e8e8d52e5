"""Notices when the event loop is blocked, and logs by what."""

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

import structlog

BEAT_S = 0.1
BLOCKED_S = 0.25
"""Everybody waits this long, so it is worth a line in the log."""
FRAMES_MAX = 12

log = structlog.get_logger()


class LoopWatchdog:
    """Beats in the loop, and looks from a thread at what the loop does when a beat is missing."""

    def __init__(self, on_block: Callable[[float], None]) -> None:
        """Call `on_block` with the seconds of each block, in the loop."""
        self._on_block = on_block
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._beat_at = monotonic()
        self._stack = ""
        self._ended = threading.Event()
        self._timer = self._loop.call_later(BEAT_S, self._beat)
        self._thread = threading.Thread(target=self._watch, name="loop watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._timer.cancel()
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        now = monotonic()
        blocked_s = now - self._beat_at - BEAT_S
        stack, self._stack, self._beat_at = self._stack, "", now
        if blocked_s >= BLOCKED_S:
            self._on_block(blocked_s)
            # Without a stack, the whole process was held up: by a long call into C, or the machine.
            log.warning("event loop blocked", seconds=round(blocked_s, 3), stack=stack or None)
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    def _watch(self) -> None:
        while not self._ended.wait(BEAT_S):
            if monotonic() - self._beat_at > BEAT_S + BLOCKED_S and not self._stack:
                frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - its only way
                if frame is not None:
                    self._stack = "".join(traceback.format_stack(frame, limit=FRAMES_MAX))


@contextmanager
def watch_loop(on_block: Callable[[float], None] = lambda _: None) -> Iterator[None]:
    """Watch the running event loop while the block lasts; call `on_block` for each blockage."""
    watchdog = LoopWatchdog(on_block)
    try:
        yield
    finally:
        watchdog.stop()
