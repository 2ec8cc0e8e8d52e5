"""A factory for tests: the real one, whose process is killed at one point of its first run.

`after:verify` dies when that phase is done and the next has not begun; `before:worktree` when
nothing is; `during:engine`, `during:setup` and `during:verify` when a file named half is there, and
for the engine when that is saved; `during:push` and `during:ship` after the coordinator's word;
`at:push` and `at:checkpoint` when there is nothing left to do but the push itself, and
`past:checkpoint` when that is done and not reported. With `:STOP` it is only stopped there.
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
from gigafactory.factory.git import workspace as workplaces
from gigafactory.factory.phases.checkout import remove_checkout
from gigafactory.factory.reporting.reporter import FleetReporter
from gigafactory.factory.run.active_run import ActiveRun
from tests.support.polling import until

MOMENTS = frozenset({"before", "during", "at", "past", "after"})
HALF = "half"
"""The file whose presence says that a program is in the middle of its work."""
Push = Callable[..., Awaitable[None]]
HALVED = frozenset({"setup", "engine", "verify"})


@dataclass
class Doom:
    """When it ends, and how; one that was only stopped goes on after it."""

    moment: str
    phase: str
    by: signal.Signals
    is_past: bool = False

    @classmethod
    def read(cls, written: str) -> "Doom":
        """The doom written as `after:verify`, or with a signal of its own."""
        moment, phase, *how = written.split(":")
        return cls(moment, phase, signal.Signals[f"SIG{how[0] if how else 'KILL'}"])

    def comes(self, moment: str, phase: str) -> None:
        """End here, if this is the point."""
        if (moment, phase) == (self.moment, self.phase) and not self.is_past:
            self.is_past = True
            os.kill(os.getpid(), self.by)


def install(at: str) -> None:
    """Doom the factory that this process is about to be."""
    doom = Doom.read(at)
    for module, name, replacement in REPLACED:
        vars(module)[name] = replacement(vars(module)[name], doom)
    # The parent process waits for a first line.
    sys.stdout.write(f"{at}\n")
    sys.stdout.flush()


def _doomed_all(phases: tuple[Phase, ...], doom: Doom) -> tuple[Phase, ...]:
    return tuple(_doomed(phase, doom) for phase in phases)


def _doomed(phase: Phase, doom: Doom) -> Phase:
    async def step(run: ActiveRun) -> RunOutcome | None:
        doom.comes("before", phase.name)
        if doom.moment == "during" and doom.phase == phase.name in HALVED:
            return await _half_done(run, phase, doom)
        outcome = await phase.step(run)
        doom.comes("after", phase.name)
        return outcome

    return phase._replace(step=step)


async def _half_done(run: ActiveRun, phase: Phase, doom: Doom) -> RunOutcome | None:
    going = asyncio.ensure_future(phase.step(run))
    await until((run.worktree / HALF).exists)
    if phase.name == "engine":
        await run.save_checkpoint()
        await _delivered(run)
    doom.comes("during", phase.name)
    return await going


def _checkpointing(push: Push, doom: Doom) -> Push:
    return _pushing(push, "checkpoint", doom)


def _pushing_result(push: Push, doom: Doom) -> Push:
    return _pushing(push, "push", doom)


def _pushing(push: Push, phase: str, doom: Doom) -> Push:
    async def pushing(*moved: Any, **more: Any) -> None:  # noqa: ANN401 - passed on as they are
        doom.comes("at", phase)
        await push(*moved, **more)
        doom.comes("past", phase)

    return pushing


async def _delivered(run: ActiveRun) -> None:
    """Come back when all that was reported has been heard."""
    await vars(run.reporter)["_sender"].wait_empty()


def _clearing(_: object, doom: Doom) -> Callable[[ActiveRun, RunOutcome], Awaitable[bool]]:
    async def clearing(run: ActiveRun, outcome: RunOutcome) -> bool:
        await _delivered(run)
        doom.comes("before", "clean-up")
        cleared = await remove_checkout(run, outcome)
        doom.comes("after", "clean-up")
        return cleared

    return clearing


def _reporter(_: object, doom: Doom) -> type[FleetReporter]:
    class DoomedReporter(FleetReporter):
        def __init__(self, *given: Any) -> None:  # noqa: ANN401 - passed on as they are
            super().__init__(*given)
            self._phase = next(
                "ship" if each.step is Step.SHIP else "push"
                for each in given
                if isinstance(each, Assignment)
            )

        def report(self, report: Report, *, last: bool = False) -> None:
            super().report(report, last=last)
            if last:
                doom.comes("after", "report")

        async def confirm_lease(self) -> bool:
            confirmed = await super().confirm_lease()
            doom.comes("during", self._phase)
            return confirmed

    return DoomedReporter


REPLACED: tuple[tuple[ModuleType, str, Callable[[Any, Doom], object]], ...] = (
    (executor, "RUN_PHASES", _doomed_all),
    (executor, "SHIP_PHASES", _doomed_all),
    (executor, "remove_checkout", _clearing),
    (workplaces, "push", _checkpointing),
    (workplaces, "push_atomically", _pushing_result),
    (agent, "FleetReporter", _reporter),
)
"""What a doomed factory has replaced: the module, the name there, and how it is replaced."""
