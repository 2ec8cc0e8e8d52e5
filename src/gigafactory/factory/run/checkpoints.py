"""Checkpoints: save the work of an active run at an interval."""

import asyncio

from gigafactory.domain.errors import Refused
from gigafactory.domain.job.job import Step
from gigafactory.factory.run.active_run import ActiveRun
from gigafactory.system.loops import run_every


async def save_checkpoints(run: ActiveRun) -> None:
    """Save the work in progress at an interval, forever; shipping runs have none."""
    if run.assignment.step is Step.SHIP:
        return
    every_s = run.equipment.checkpoint_every_s
    failing = False

    async def save() -> None:
        nonlocal failing
        try:
            await run.save_checkpoint()
        except (Refused, OSError) as trouble:
            # The work is still in the worktree; the next checkpoint saves all of it.
            failing = True
            run.log_line(f"checkpoint: not saved; retrying in {every_s:g} s: {trouble}")
            return
        if failing:
            failing = False
            run.log_line("checkpoint: saved again")

    await asyncio.sleep(every_s)
    await run_every(every_s, save, name="checkpoint")
