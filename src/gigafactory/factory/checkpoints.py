"""Checkpoints: while a run goes on, its work is saved every few minutes."""

import asyncio

from gigafactory.domain.job import Step
from gigafactory.factory.run import Run
from gigafactory.loops import every

EVERY_S = 180.0


async def checkpoints(run: Run, *, every_s: float = EVERY_S) -> None:
    """Save the work in progress, for ever; the beginning is saved already.

    Whoever ships, or looks at what was shipped, has none.
    """
    if run.assignment.step is Step.SHIP:
        return
    await asyncio.sleep(every_s)
    await every(every_s, run.save, name="checkpoint")
