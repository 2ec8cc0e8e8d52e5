"""What this machine has: found out at the start, and looked at again while it works."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from gigafactory.factory.machine.detect import Detected
from gigafactory.system.loops import every

EVERY_S = 600.0

log = structlog.get_logger()


class Inventory:
    """The newest of what was found; whoever asks sees it as it is now."""

    def __init__(self, detected: Detected, look: Callable[[], Awaitable[Detected]]) -> None:
        """Begin with what was found, and look again in this way."""
        self.detected = detected
        self._look = look

    async def again(self) -> bool:
        """Look again; tells whether something has changed."""
        found = await self._look()
        came = sorted(found.tokens - self.detected.tokens)
        went = sorted(self.detected.tokens - found.tokens)
        changed = found != self.detected
        if changed:
            log.info("this machine has changed", has=came, lacks=went)
        self.detected = found
        return changed


async def noticing(
    inventory: Inventory, tell: Callable[[Detected], None], *, every_s: float = EVERY_S
) -> None:
    """Look from time to time, for ever, and tell when something has changed."""

    async def look() -> None:
        if await inventory.again():
            tell(inventory.detected)

    await asyncio.sleep(every_s)
    await every(every_s, look, name="inventory")
