"""Executes one run, phase by phase, to exactly one outcome."""

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
from gigafactory.factory.phases.checkout import checkout, checkout_base, remove_checkout
from gigafactory.factory.phases.engine import run_engine
from gigafactory.factory.phases.push import push_result
from gigafactory.factory.phases.scope import check_scope, record_changes
from gigafactory.factory.phases.setup import run_setup
from gigafactory.factory.phases.ship import ship
from gigafactory.factory.phases.verify import run_verify
from gigafactory.factory.reporting.reporter import Reporter
from gigafactory.factory.run import report_payloads, run_registry
from gigafactory.factory.run.active_run import ActiveRun, Equipment
from gigafactory.factory.run.checkpoints import save_checkpoints
from gigafactory.factory.run.failure import outcome_of_exception
from gigafactory.system.loops import run_in_background

log = structlog.get_logger()

LOG_TIMEOUT_S = 20.0
"""How long to wait until the end of a log is sent. The local log file is kept in any case."""


class Phase(NamedTuple):
    """One phase of a run; `timeout_s` bounds phases that have no limit of their own."""

    name: str
    step: Callable[[ActiveRun], Awaitable[RunOutcome | None]]
    timeout_s: float | None = None


RUN_PHASES = (
    Phase("worktree", checkout, 15 * 60.0),
    Phase("setup", run_setup),
    Phase("engine", run_engine),
    Phase("scope", check_scope, 5 * 60.0),
    Phase("verify", run_verify),
    Phase("push", push_result, 15 * 60.0),
)
SHIP_PHASES = (Phase("ship", ship, 30 * 60.0),)
ACCEPTANCE_PHASES = (
    Phase("worktree", checkout_base, 15 * 60.0),
    Phase("setup", run_setup),
    Phase("acceptance", run_verify),
)
"""The last step of a composite: run its `verify` on the work that its children shipped."""


class Executor:
    """Runs jobs on this machine."""

    def __init__(self, equipment: Equipment, *, slots: int) -> None:
        self._equipment = equipment
        self.slots = slots

    def seats(self, engine_name: str) -> int:
        """Return the number of runs of an engine that may be active at once."""
        detected = self._equipment.detected_engines.get(engine_name)
        return detected.seats if detected is not None and detected.problem is None else 0

    async def run(self, assignment: Assignment, reporter: Reporter, stop: StopSignal) -> RunOutcome:
        """Run or ship the job, report, and return its one outcome; errors become outcomes too."""
        access = await reporter.fleet_access()
        run = ActiveRun(assignment, self._equipment, reporter, stop, access)
        try:
            return await self._run_to_end(run)
        finally:
            # Also when the run is cancelled together with the factory and skips the regular clean-
            # up.
            with contextlib.suppress(OSError):
                await asyncio.to_thread(remove_tree, run.tmp)

    async def _run_to_end(self, run: ActiveRun) -> RunOutcome:
        reporter, step = run.reporter, run.assignment.step
        sending = asyncio.create_task(reporter.send_log(run.log))
        try:
            if step is Step.RUN:
                reporter.report(report_payloads.run_started(run))
            outcome = await self._run_phases(run, _phases(run))
            outcome = await self._save_work(run, outcome)
            outcome = await self._upload_results(run, outcome)
            last_report = report_payloads.run_ended(run, outcome)
        finally:
            run.close()
            # Appending to the log needs the lease, and the last report ends it: send the log first.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOG_TIMEOUT_S):
                    await sending
            sending.cancel()
        if last_report is not None:
            reporter.report(last_report, last=True)
        await self._clean_up(run, outcome)
        return outcome

    async def _run_phases(self, run: ActiveRun, phases: tuple[Phase, ...]) -> RunOutcome:
        try:
            run_registry.register(self._equipment.data_dir, run.registry_entry)
        except OSError as error:
            return outcome_of_exception("start", error)
        if phases is RUN_PHASES and not run.remaining_s:
            return run.timeout_outcome()
        *working, last = phases
        async with run_in_background(save_checkpoints(run)):
            outcome = await self._run_in_order(run, working)
        # The work no longer changes: a checkpoint that hangs must not delay the result.
        return outcome or await self._run_in_order(run, (last,)) or RunOutcome(result=Result.OK)

    async def _run_in_order(self, run: ActiveRun, phases: Sequence[Phase]) -> RunOutcome | None:
        for phase in phases:
            run.log_line(f"phase: {phase.name}")
            outcome = await self._run_phase(run, phase)
            if outcome is not None:
                return outcome
        return None

    async def _run_phase(self, run: ActiveRun, phase: Phase) -> RunOutcome | None:
        if run.stop.event.is_set():
            return run.stopped_outcome()
        try:
            async with asyncio.timeout(phase.timeout_s):
                return await phase.step(run)
        except TimeoutError:
            reason = f"{phase.name} took longer than {phase.timeout_s:g} s"
            return RunOutcome(result=Result.TIMEOUT, reason=reason)
        except Exception as error:
            if not isinstance(error, Refused):
                log.exception("phase failed", phase=phase.name, run=run.assignment.run_id)
            return outcome_of_exception(phase.name, error)

    async def _save_work(self, run: ActiveRun, outcome: RunOutcome) -> RunOutcome:
        """Save the work of a run that ended early; quarantine it locally if the run was fenced."""
        if outcome.succeeded or run.workspace is None or run.assignment.step is Step.SHIP:
            return outcome
        try:
            if run.stop.reason is StopReason.FENCED:
                job = run.assignment
                place = run.equipment.data_dir.quarantine_folder(job.job_id, job.epoch)
                await run.workspace.quarantine(place)
                run.is_saved = True
            else:
                await run.save_checkpoint()
                await record_changes(run)
        except Exception as error:
            if not isinstance(error, Refused):
                log.exception("work not saved", run=run.assignment.run_id)
            run.log_line(f"the work could not be saved: {error}")
            return outcome if run.is_saved else _with_location(run, outcome)
        return outcome

    async def _upload_results(self, run: ActiveRun, outcome: RunOutcome) -> RunOutcome:
        """Upload diff and artifacts while the lease and the checkout still exist."""
        if diff.should_upload(run, outcome):
            try:
                await diff.upload_run_diff(run)
            except Exception:
                log.exception("diff not uploaded", run=run.assignment.run_id)
                run.log_line("the diff was not uploaded: see the log of the factory")
        if not artifacts.should_upload(run, outcome):
            return outcome
        try:
            missing = await artifacts.upload_artifacts(run)
        except Exception as error:
            log.exception("artifacts not uploaded", run=run.assignment.run_id)
            missing = str(error)
        return (
            outcome
            if missing is None
            else artifacts.outcome_without_artifacts(run, outcome, missing)
        )

    async def _clean_up(self, run: ActiveRun, outcome: RunOutcome) -> None:
        """Remove what is saved elsewhere; crash recovery handles the rest at the next start."""
        try:
            await asyncio.to_thread(remove_tree, run.tmp)
            if await remove_checkout(run, outcome):
                run_registry.unregister(self._equipment.data_dir, run.assignment.run_id)
        except Exception:
            log.exception("checkout not removed", run=run.assignment.run_id)


def _phases(run: ActiveRun) -> tuple[Phase, ...]:
    if run.assignment.step is Step.RUN:
        return RUN_PHASES
    return ACCEPTANCE_PHASES if run.assignment.manifest.kind == "composite" else SHIP_PHASES


def _with_location(run: ActiveRun, outcome: RunOutcome) -> RunOutcome:
    where = f"the work is kept on factory {run.equipment.factory_id} in {run.worktree}"
    return replace(outcome, reason=f"{outcome.reason or outcome.result}; {where}")
