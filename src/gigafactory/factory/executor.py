"""The executor: one run, phase by phase, to exactly one end; the fleet and the folder share it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import structlog
from msgspec.structs import replace

from gigafactory.domain.errors import Refused
from gigafactory.domain.job.job import Result, Step
from gigafactory.factory.core.assignment import Assignment, RunOutcome
from gigafactory.factory.core.remove_tree import remove_tree
from gigafactory.factory.core.stop import StopReason, StopSignal
from gigafactory.factory.phases import artifacts, diff
from gigafactory.factory.phases.engine import engine
from gigafactory.factory.phases.place import clear, look, place
from gigafactory.factory.phases.push import deliver
from gigafactory.factory.phases.scope import note_changes, scope
from gigafactory.factory.phases.setup import setup
from gigafactory.factory.phases.ship import ship
from gigafactory.factory.phases.verify import verify
from gigafactory.factory.reporting.reporter import Reporter
from gigafactory.factory.run import report_payloads as telling
from gigafactory.factory.run import run_registry as live_runs
from gigafactory.factory.run.checkpoints import checkpoints
from gigafactory.factory.run.failure import outcome_of_trouble
from gigafactory.factory.run.run import Equipment, Run
from gigafactory.system.loops import meanwhile

log = structlog.get_logger()

LOGS_FOLLOW_S = 20.0
"""So long the end of a log may take to be sent; the file stays here anyway."""


class Phase(NamedTuple):
    """One step of a run; `lasts_max_s` bounds those that have no limit of their own."""

    name: str
    step: Callable[[Run], Awaitable[RunOutcome | None]]
    lasts_max_s: float | None = None


WORK = (
    Phase("worktree", place, 15 * 60.0),
    Phase("setup", setup),
    Phase("engine", engine),
    Phase("scope", scope, 5 * 60.0),
    Phase("verify", verify),
    Phase("push", deliver, 15 * 60.0),
)
SHIP = (Phase("ship", ship, 30 * 60.0),)
ACCEPT = (
    Phase("worktree", look, 15 * 60.0),
    Phase("setup", setup),
    Phase("acceptance", verify),
)
"""The last step of a composite: its verify, on what its children have shipped."""


class Executor:
    """Runs jobs on this machine."""

    def __init__(self, equipment: Equipment, *, slots: int) -> None:
        """Run with this equipment, so many at a time."""
        self._equipment = equipment
        self.slots = slots

    def seats(self, engine_name: str) -> int:
        """How many runs of an engine may go on here at once."""
        found = self._equipment.found.get(engine_name)
        return found.seats if found is not None and found.problem is None else 0

    async def run(self, assignment: Assignment, reporter: Reporter, stop: StopSignal) -> RunOutcome:
        """Do the job, or ship it, and report; whatever happens, it ends in one outcome."""
        access = await reporter.access()
        run = Run(assignment, self._equipment, reporter, stop, access)
        try:
            return await self._to_its_end(run)
        finally:
            # Also of a run that is cancelled with all of the factory, and clears up nothing else.
            with contextlib.suppress(OSError):
                await asyncio.to_thread(remove_tree, run.tmp)

    async def _to_its_end(self, run: Run) -> RunOutcome:
        reporter, step = run.reporter, run.assignment.step
        sending = asyncio.create_task(reporter.send_log(run.log))
        try:
            if step is Step.RUN:
                reporter.report(telling.begun(run))
            outcome = await self._through(run, _phases(run))
            outcome = await self._saved(run, outcome)
            outcome = await self._handed_in(run, outcome)
            told = telling.ended(run, outcome)
        finally:
            run.close()
            # With the lease ends the right to add to the log: it goes first.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOGS_FOLLOW_S):
                    await sending
            sending.cancel()
        if told is not None:
            reporter.report(told, last=True)
        await self._cleared(run, outcome)
        return outcome

    async def _through(self, run: Run, phases: tuple[Phase, ...]) -> RunOutcome:
        try:
            live_runs.note(self._equipment.data_dir, run.noted)
        except OSError as trouble:
            return outcome_of_trouble("start", trouble)
        if phases is WORK and not run.left_s:
            return run.out_of_time()
        *working, last = phases
        async with meanwhile(checkpoints(run)):
            outcome = await self._in_turn(run, working)
        # Nothing changes any more: a checkpoint that hangs must not keep the result back.
        return outcome or await self._in_turn(run, (last,)) or RunOutcome(result=Result.OK)

    async def _in_turn(self, run: Run, phases: Sequence[Phase]) -> RunOutcome | None:
        for phase in phases:
            run.tell(f"phase: {phase.name}")
            outcome = await self._phase(run, phase)
            if outcome is not None:
                return outcome
        return None

    async def _phase(self, run: Run, phase: Phase) -> RunOutcome | None:
        if run.stop.event.is_set():
            return run.stopped()
        try:
            async with asyncio.timeout(phase.lasts_max_s):
                return await phase.step(run)
        except TimeoutError:
            reason = f"{phase.name} took longer than {phase.lasts_max_s:g} s"
            return RunOutcome(result=Result.TIMEOUT, reason=reason)
        except Exception as trouble:
            if not isinstance(trouble, Refused):
                log.exception("phase failed", phase=phase.name, run=run.assignment.run_id)
            return outcome_of_trouble(phase.name, trouble)

    async def _saved(self, run: Run, outcome: RunOutcome) -> RunOutcome:
        """Keep the work of a run that ended early; a fenced one keeps it to itself."""
        if outcome.succeeded or run.workplace is None or run.assignment.step is Step.SHIP:
            return outcome
        try:
            if run.stop.reason is StopReason.FENCED:
                job = run.assignment
                place = run.equipment.data_dir.quarantine_folder(job.job_id, job.epoch)
                await run.workplace.quarantine(place)
                run.saved = True
            else:
                await run.save()
                await note_changes(run)
        except Exception as trouble:
            if not isinstance(trouble, Refused):
                log.exception("work not saved", run=run.assignment.run_id)
            run.tell(f"the work could not be saved: {trouble}")
            return outcome if run.saved else _kept_here(run, outcome)
        return outcome

    async def _handed_in(self, run: Run, outcome: RunOutcome) -> RunOutcome:
        """Hand in what the job leaves behind, while the lease lasts and the place is there."""
        if diff.due(run, outcome):
            try:
                await diff.hand_in_work(run)
            except Exception:
                log.exception("diff not handed in", run=run.assignment.run_id)
                run.tell("the diff is not handed in: the factory's own log says why")
        if not artifacts.due(run, outcome):
            return outcome
        try:
            missing = await artifacts.hand_in(run)
        except Exception as trouble:
            log.exception("artifacts not handed in", run=run.assignment.run_id)
            missing = str(trouble)
        return outcome if missing is None else artifacts.ended(run, outcome, missing)

    async def _cleared(self, run: Run, outcome: RunOutcome) -> None:
        """Leave nothing here that is elsewhere; the rest is for the next start to look after."""
        try:
            await asyncio.to_thread(remove_tree, run.tmp)
            if await clear(run, outcome):
                live_runs.forget(self._equipment.data_dir, run.assignment.run_id)
        except Exception:
            log.exception("place not cleared", run=run.assignment.run_id)


def _phases(run: Run) -> tuple[Phase, ...]:
    if run.assignment.step is Step.RUN:
        return WORK
    return ACCEPT if run.assignment.manifest.kind == "composite" else SHIP


def _kept_here(run: Run, outcome: RunOutcome) -> RunOutcome:
    """The outcome of a run whose work is on this machine only, and where."""
    where = f"the work is kept on factory {run.equipment.factory_id} in {run.worktree}"
    return replace(outcome, reason=f"{outcome.reason or outcome.result}; {where}")
