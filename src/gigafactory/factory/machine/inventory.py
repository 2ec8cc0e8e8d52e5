"""What this machine has: found out at the start, and looked at again while it works."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from gigafactory.factory.machine.detect import DetectedMachine
from gigafactory.system.loops import every

EVERY_S = 600.0

log = structlog.get_logger()


class Inventory:
    """The newest of what was found; whoever asks sees it as it is now."""

    def __init__(
        self, detected: DetectedMachine, detect: Callable[[], Awaitable[DetectedMachine]]
    ) -> None:
        """Begin with what was found, and look again in this way."""
        self.detected = detected
        self._look = detect

    async def refresh(self) -> bool:
        """Look again; tells whether something has changed."""
        found = await self._look()
        came = sorted(found.tokens - self.detected.tokens)
        went = sorted(self.detected.tokens - found.tokens)
        changed = found != self.detected
        if changed:
            log.info("this machine has changed", has=came, lacks=went)
        self.detected = found
        return changed


async def watch_inventory(
    inventory: Inventory, on_change: Callable[[DetectedMachine], None], *, every_s: float = EVERY_S
) -> None:
    """Look from time to time, for ever, and tell when something has changed."""

    async def look() -> None:
        if await inventory.refresh():
            on_change(inventory.detected)

    await asyncio.sleep(every_s)
    await every(every_s, look, name="inventory")
