"""Kill points of a factory: the real one, whose process is killed at one point of its first run.

`before:PHASE` and `after:PHASE` are the start and the end of a phase. `during:engine`,
`during:setup` and `during:verify` wait for a file named half; the engine's also for its
checkpoint. `during:push` and `during:ship` are just after the coordinator confirmed the lease.
`at:push` and `at:checkpoint` are just before the git push, `past:checkpoint` just after it and
before its report. `:STOP` stops the process instead of killing it.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from gigafactory.domain.job.job import Step
from gigafactory.domain.job.worker_report import Report
from gigafactory.factory import executor
from gigafactory.factory.agent import agent
from gigafactory.factory.core.assignment import Assignment, RunOutcome
from gigafactory.factory.executor import Phase
from gigafactory.factory.git import workspace
from gigafactory.factory.phases.checkout import remove_checkout
from gigafactory.factory.reporting.reporter import FleetReporter
from gigafactory.factory.run.active_run import ActiveRun
from tests.support.polling import until

MOMENTS = frozenset({"before", "during", "at", "past", "after"})
HALF = "half"
"""The file whose presence shows that a program is half done."""
Push = Callable[..., Awaitable[None]]
HALF_DONE_PHASES = frozenset({"setup", "engine", "verify"})


@dataclass
class FactoryKillPoint:
    """A point of a run and a signal; after a mere stop the run continues."""

    moment: str
    phase: str
    by: signal.Signals
    is_reached: bool = False

    @classmethod
    def read(cls, written: str) -> "FactoryKillPoint":
        """Parse `after:verify`, optionally followed by a signal."""
        moment, phase, *how = written.split(":")
        return cls(moment, phase, signal.Signals[f"SIG{how[0] if how else 'KILL'}"])

    def reach(self, moment: str, phase: str) -> None:
        """Send the signal if this is the point."""
        if (moment, phase) == (self.moment, self.phase) and not self.is_reached:
            self.is_reached = True
            os.kill(os.getpid(), self.by)


def install(at: str) -> None:
    """Install a kill point into the factory that this process will run."""
    point = FactoryKillPoint.read(at)
    for module, name, replacement in REPLACED:
        vars(module)[name] = replacement(vars(module)[name], point)
    # The parent process waits for a first line.
    sys.stdout.write(f"{at}\n")
    sys.stdout.flush()


def _with_kill_point_all(phases: tuple[Phase, ...], point: FactoryKillPoint) -> tuple[Phase, ...]:
    return tuple(_with_kill_point(phase, point) for phase in phases)


def _with_kill_point(phase: Phase, point: FactoryKillPoint) -> Phase:
    async def step(run: ActiveRun) -> RunOutcome | None:
        point.reach("before", phase.name)
        if point.moment == "during" and point.phase == phase.name in HALF_DONE_PHASES:
            return await _kill_when_half_done(run, phase, point)
        outcome = await phase.step(run)
        point.reach("after", phase.name)
        return outcome

    return phase._replace(step=step)


async def _kill_when_half_done(
    run: ActiveRun, phase: Phase, point: FactoryKillPoint
) -> RunOutcome | None:
    step = asyncio.ensure_future(phase.step(run))
    await until((run.worktree / HALF).exists)
    if phase.name == "engine":
        await run.save_checkpoint()
        await _delivered(run)
    point.reach("during", phase.name)
    return await step


def _killing_checkpoint(push: Push, point: FactoryKillPoint) -> Push:
    return _killing_push(push, "checkpoint", point)


def _killing_result_push(push: Push, point: FactoryKillPoint) -> Push:
    return _killing_push(push, "push", point)


def _killing_push(push: Push, phase: str, point: FactoryKillPoint) -> Push:
    async def pushing(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as they are
        point.reach("at", phase)
        await push(*args, **kwargs)
        point.reach("past", phase)

    return pushing


async def _delivered(run: ActiveRun) -> None:
    """Wait until the coordinator has received all reports."""
    await vars(run.reporter)["_sender"].wait_empty()


def _killing_cleanup(
    _: object, point: FactoryKillPoint
) -> Callable[[ActiveRun, RunOutcome], Awaitable[bool]]:
    async def clearing(run: ActiveRun, outcome: RunOutcome) -> bool:
        await _delivered(run)
        point.reach("before", "clean-up")
        removed = await remove_checkout(run, outcome)
        point.reach("after", "clean-up")
        return removed

    return clearing


def _reporter(_: object, point: FactoryKillPoint) -> type[FleetReporter]:
    class KillingReporter(FleetReporter):
        def __init__(self, *args: Any) -> None:  # noqa: ANN401 - passed on as they are
            super().__init__(*args)
            self._phase = next(
                "ship" if each.step is Step.SHIP else "push"
                for each in args
                if isinstance(each, Assignment)
            )

        def report(self, report: Report, *, last: bool = False) -> None:
            super().report(report, last=last)
            if last:
                point.reach("after", "report")

        async def confirm_lease(self) -> bool:
            confirmed = await super().confirm_lease()
            point.reach("during", self._phase)
            return confirmed

    return KillingReporter


REPLACED: tuple[tuple[ModuleType, str, Callable[[Any, FactoryKillPoint], object]], ...] = (
    (executor, "RUN_PHASES", _with_kill_point_all),
    (executor, "SHIP_PHASES", _with_kill_point_all),
    (executor, "remove_checkout", _killing_cleanup),
    (workspace, "push", _killing_checkpoint),
    (workspace, "push_atomically", _killing_result_push),
    (agent, "FleetReporter", _reporter),
)
"""The replaced names: module, name, and a function that makes the replacement."""
