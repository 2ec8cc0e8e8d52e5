"""The loop of background duties."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager

import structlog

log = structlog.get_logger()

Step = Callable[[], Awaitable[None]]


async def run_every(
    seconds: float, step: Step, *, name: str, wake: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Run `step` for ever, after `seconds` or when `wake` returns; failures are logged."""
    while True:
        try:
            await step()
        except Exception:
            log.exception("duty failed", duty=name)
            await asyncio.sleep(seconds)
            continue
        try:
            async with asyncio.timeout(seconds):
                await (wake() if wake else asyncio.sleep(seconds * 2))
        except TimeoutError:
            pass


@asynccontextmanager
async def run_in_background(duty: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run a duty in the background while the block lasts."""
    task = asyncio.create_task(duty)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
