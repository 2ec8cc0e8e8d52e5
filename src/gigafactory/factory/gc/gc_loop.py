"""Runs garbage collection regularly in the background, and logs what was done."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import structlog

from gigafactory.factory.gc.gc import GarbageCollector
from gigafactory.factory.gc.report import GcReport
from gigafactory.system.loops import run_every

log = structlog.get_logger()

FIRST_PART = 6
"""The first round comes after this fraction of the usual interval, to keep starts fast."""


class GcLoop:
    """Collects, and logs each item once."""

    def __init__(self, collector: GarbageCollector) -> None:
        self._collector = collector
        self._reported: frozenset[str] = frozenset()

    async def step(self) -> None:
        """Run one round."""
        self._log(await self._collector.collect(datetime.now(UTC)))

    def _log(self, sweep: GcReport) -> None:
        for each in sweep.changed:
            log.info("housekeeping", did=str(each))
        left = {str(each) for each in sweep.swept if each.did == "kept"} | set(sweep.notes)
        for line in sorted(left - self._reported):
            log.warning("housekeeping", found=line)
        self._reported = frozenset(left)
        if summed := sweep.summary():
            log.info("garbage collected", did=summed)


@contextlib.asynccontextmanager
async def running_gc(collector: GarbageCollector, every_s: float) -> AsyncIterator[None]:
    """Collect every `every_s` seconds while the block lasts."""
    task = asyncio.create_task(_run(GcLoop(collector), every_s))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _run(loop: GcLoop, every_s: float) -> None:
    await asyncio.sleep(every_s / FIRST_PART)
    await run_every(every_s, loop.step, name="housekeeping")
