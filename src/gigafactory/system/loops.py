"""The loop that all background duties share."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager

import structlog

log = structlog.get_logger()

Step = Callable[[], Awaitable[None]]


async def every(
    seconds: float, step: Step, *, name: str, wake: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Take the step for ever, after `seconds` or when `wake` returns; failures are logged."""
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
async def meanwhile(duty: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Let a duty go on for as long as the block lasts."""
    task = asyncio.create_task(duty)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
