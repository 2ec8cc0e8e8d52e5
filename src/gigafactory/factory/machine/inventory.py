"""The inventory of this machine: detected at start, and refreshed at an interval."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from gigafactory.factory.machine.detect import DetectedMachine
from gigafactory.system.loops import run_every

EVERY_S = 600.0

log = structlog.get_logger()


class Inventory:
    """The newest detected state of this machine."""

    def __init__(
        self, detected: DetectedMachine, detect: Callable[[], Awaitable[DetectedMachine]]
    ) -> None:
        """`detect` detects the state again."""
        self.detected = detected
        self._look = detect

    async def refresh(self) -> bool:
        """Detect again; return whether something changed."""
        detected = await self._look()
        added = sorted(detected.tokens - self.detected.tokens)
        went = sorted(self.detected.tokens - detected.tokens)
        changed = detected != self.detected
        if changed:
            log.info("machine inventory changed", has=added, lacks=went)
        self.detected = detected
        return changed


async def watch_inventory(
    inventory: Inventory, on_change: Callable[[DetectedMachine], None], *, every_s: float = EVERY_S
) -> None:
    """Refresh at an interval, forever, and call `on_change` after a change."""

    async def look() -> None:
        if await inventory.refresh():
            on_change(inventory.detected)

    await asyncio.sleep(every_s)
    await run_every(every_s, look, name="inventory")
