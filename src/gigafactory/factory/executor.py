"""The executor: one run, phase by phase, to exactly one end; the fleet and the folder share it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import structlog

from gigafactory.domain.job import Result, Step
from gigafactory.domain.quantity import format_usd
from gigafactory.domain.run import Usage
from gigafactory.factory import live_runs
from gigafactory.factory.assignment import Assignment, Outcome
from gigafactory.factory.checkpoints import Checkpoints
from gigafactory.factory.phases.deliver import deliver
from gigafactory.factory.phases.engine import engine
from gigafactory.factory.phases.place import clear, place
from gigafactory.factory.phases.scope import scope
from gigafactory.factory.phases.setup import setup
from gigafactory.factory.phases.ship import ship
from gigafactory.factory.phases.verify import verify
from gigafactory.factory.reporting import Reporter
from gigafactory.factory.run import Equipment, Run
from gigafactory.factory.stopping import Stop, Why
from gigafactory.factory.trouble import outcome_of_trouble

log = structlog.get_logger()

LOGS_FOLLOW_S = 20.0
"""So long the end of a log may take to be sent; the file stays here anyway."""


class Phase(NamedTuple):
    """One step of a run; `lasts_max_s` bounds those that have no limit of their own."""

    name: str
    step: Callable[[Run], Awaitable[Outcome | None]]
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

    async def run(self, assignment: Assignment, reporter: Reporter, stop: Stop) -> Outcome:
        """Do the job, or ship it, and report; whatever happens, it ends in one outcome."""
        run = Run(assignment, self._equipment, reporter, stop)
        live_runs.note(self._equipment.places, run.noted)
        sending = asyncio.create_task(reporter.send_log(run.log))
        try:
            if assignment.step is Step.RUN:
                reporter.report({"stage": "building"})
            outcome = await self._through(run, WORK if assignment.step is Step.RUN else SHIP)
            outcome = await self._saved(run, outcome)
            told = _end_told(run, outcome)
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

    async def _through(self, run: Run, phases: tuple[Phase, ...]) -> Outcome:
        async with Checkpoints(run):
            for phase in phases:
                run.tell(f"phase: {phase.name}")
                outcome = await self._phase(run, phase)
                if outcome is not None:
                    return outcome
        return Outcome(result=Result.OK)

    async def _phase(self, run: Run, phase: Phase) -> Outcome | None:
        if run.stop.event.is_set():
            return run.stopped()
        try:
            async with asyncio.timeout(phase.lasts_max_s):
                return await phase.step(run)
        except TimeoutError:
            reason = f"{phase.name} took longer than {phase.lasts_max_s:g} s"
            return Outcome(result=Result.TIMEOUT, reason=reason)
        except Exception as trouble:
            log.exception("phase failed", phase=phase.name, run=run.assignment.run_id)
            return outcome_of_trouble(phase.name, trouble)

    async def _saved(self, run: Run, outcome: Outcome) -> Outcome:
        """Keep the work of a run that ended early; a fenced one keeps it to itself."""
        if outcome.good or run.workplace is None or run.assignment.step is Step.SHIP:
            return outcome
        try:
            if run.stop.why is Why.FENCED:
                job = run.assignment
                place = run.equipment.places.quarantined(job.job_id, job.epoch)
                await run.workplace.quarantine(place)
                run.saved = True
            else:
                await run.save()
        except Exception as trouble:
            log.exception("work not saved", run=run.assignment.run_id)
            run.tell(f"the work could not be saved: {trouble}")
        return outcome

    async def _cleared(self, run: Run, outcome: Outcome) -> None:
        """Leave nothing here that is elsewhere; the rest is for the next start to look after."""
        try:
            if await clear(run, outcome):
                live_runs.forget(self._equipment.places, run.assignment.run_id)
        except Exception:
            log.exception("place not cleared", run=run.assignment.run_id)


def _end_told(run: Run, outcome: Outcome) -> dict[str, Any] | None:
    """How it ended; one whose lease is another's by now has nothing to say."""
    if run.stop.why in {Why.FENCED, Why.CANCELLED}:
        return None
    told: dict[str, Any] = {"result": outcome.result}
    if outcome.good:
        told["stage"] = _success(run)
    elif outcome.result in {Result.PREEMPTED, Result.RELEASED, Result.LOST}:
        told |= {"stage": "queued", "reason": outcome.reason}
    else:
        told |= {"stage": "failed", "reason": outcome.reason or str(outcome.result)}
    if outcome.retry_after_s is not None:
        told["retryAfter"] = outcome.retry_after_s
    found = run.findings
    told |= {name: value for name in ("verify", "diff") if (value := getattr(found, name))}
    if found.checkpoint is not None:
        told["checkpoint"] = msgspec.to_builtins(found.checkpoint)
    if found.usage is not None:
        told["usage"] = usage_told(found.usage)
    run.tell(f"ended: {outcome.result}" + (f", {outcome.reason}" if outcome.reason else ""))
    return told


def _success(run: Run) -> str:
    if run.assignment.step is Step.SHIP:
        return "shipped"
    guarded = bool((run.findings.diff or {}).get("protected"))
    return "review" if guarded else "testing"


def usage_told(usage: Usage) -> dict[str, object]:
    """Usage as a report carries it: a sum of money in the words of people."""
    told: dict[str, object] = msgspec.to_builtins(usage)
    nanos = told.pop("costNanoUsd", None)
    if isinstance(nanos, int):
        told["costUsd"] = format_usd(nanos)
    return told
