"""Keeps house while a process works: a round now and then, and its log tells what was done."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import structlog

from gigafactory.factory.gc.gc import Housekeeping
from gigafactory.factory.gc.report import Sweep
from gigafactory.system.loops import every

log = structlog.get_logger()

FIRST_PART = 6
"""The first round comes after this part of the usual pause: a start has better things to do."""


class Keeper:
    """Sweeps, and says each thing once."""

    def __init__(self, house: Housekeeping) -> None:
        """Look after this house."""
        self._house = house
        self._told: frozenset[str] = frozenset()

    async def step(self) -> None:
        """One round."""
        self._tell(await self._house.sweep(datetime.now(UTC)))

    def _tell(self, sweep: Sweep) -> None:
        for each in sweep.done:
            log.info("housekeeping", did=str(each))
        left = {str(each) for each in sweep.swept if each.did == "kept"} | set(sweep.notes)
        for line in sorted(left - self._told):
            log.warning("housekeeping", found=line)
        self._told = frozenset(left)
        if summed := sweep.summed_up():
            log.info("housekeeping done", did=summed)


@contextlib.asynccontextmanager
async def kept_in_order(house: Housekeeping, every_s: float) -> AsyncIterator[None]:
    """Sweep every so often for as long as the block lasts."""
    keeping = asyncio.create_task(_keep(Keeper(house), every_s))
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])


async def _keep(keeper: Keeper, every_s: float) -> None:
    await asyncio.sleep(every_s / FIRST_PART)
    await every(every_s, keeper.step, name="housekeeping")
