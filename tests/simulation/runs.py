"""One run on a machine: started, renewed, checkpointed, and ended, also after its lease."""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gigafactory.coordinator.coordinator import Coordinator
from gigafactory.coordinator.dispatch.grants import Grant
from gigafactory.domain.composite.plan import PLAN_FILE
from gigafactory.domain.errors import Conflict, Fenced, Refused
from gigafactory.domain.job.artifact import Artifact, ArtifactUpload
from gigafactory.domain.job.job import Checkpoint, Job, Result, Stage, Step
from gigafactory.domain.job.run import Usage
from gigafactory.domain.job.worker_report import Report
from gigafactory.domain.tenancy.access import Caller
from tests.simulation.network import Lost
from tests.simulation.roadmaps import PLAN

if TYPE_CHECKING:
    from tests.simulation.factories import Machine

STUCK_S = 120.0
"""How long a stuck engine stands still if nobody ends its run."""
FAILURES = (
    Result.CRASH,
    Result.CRASH,
    Result.TIMEOUT,
    Result.VERIFY_FAILED,
    Result.SETUP_FAILED,
    Result.NO_CHANGE,
    Result.SCOPE_VIOLATION,
    Result.CONTEXT_TOO_LONG,
    Result.BUDGET_EXCEEDED,
    Result.MERGE_CONFLICT,
    Result.RATE_LIMITED,
    Result.ENGINE_UNAVAILABLE,
    Result.OVERLOADED,
    Result.RELEASED,
)


class StopRequested(Exception):  # noqa: N818 - reads as the outcome
    """Raised when the coordinator requests that the run stops."""


class Run:
    """A machine's knowledge about one granted job; it survives a crash on disk."""

    def __init__(self, grant: Grant, machine: "Machine") -> None:
        """Continue from the last accepted checkpoint."""
        self.job_id = grant.job.id
        self.epoch = grant.lease.epoch
        self.step = grant.lease.step
        self.terms = grant.job.terms
        self.composite = grant.job.composite
        self.planner = grant.job.planner
        head = grant.job.checkpoint
        self.progress = int(head.commit.partition(".")[0]) if head else 0
        self.head = head.commit if head else None
        rng = machine.rng
        self.ignores_fencing = not machine.calm and rng.random() < 0.4
        self.fails = not machine.calm and rng.random() < 0.35
        self.outbox: list[tuple[str, Report]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._kills_host = grant.job.title.endswith(machine.killer_titles)
        self._stuck = False
        self._command: str | None = None
        self._command_received = asyncio.Event()

    def start(self, machine: "Machine") -> None:
        """Work, and renew the lease at the same time."""
        self._tasks = [machine.spawn(self._work(machine)), machine.spawn(self._renew(machine))]

    def process_died(self) -> None:
        """Forget the tasks of the dead process; keep the state on disk."""
        self._tasks = []
        self._stuck = False
        self._command_received.clear()

    def is_resumed(self, rng: random.Random) -> bool:
        """Return whether a new process continues this run."""
        return rng.random() < 0.5 and not self._kills_host

    async def replay(self, machine: "Machine") -> None:
        """Send the report that the former process did not deliver, or continue the run."""
        for key, report in self.outbox[:1]:
            try:
                await self._send(machine, key, report)
            except (Lost, Refused):
                self._finish(machine)
                return
        if self.outbox:
            self._finish(machine)
        else:
            self.start(machine)

    def command(self, kind: str, machine: "Machine") -> None:
        """Receive a command: stop, or checkpoint and hand back."""
        if self._stuck and kind == "preempt":
            return
        draw = machine.rng.random()
        if draw < 0.8 or machine.calm:
            self._command = kind
            self._command_received.set()
        elif draw < 0.9 and kind == "preempt":
            self._stuck = True

    async def _work_for(self, seconds: float) -> None:
        """Work for a while, or much longer if the engine is stuck.

        Raises StopRequested as soon as a command arrives.
        """
        if await self._is_commanded(seconds) or (self._stuck and await self._is_commanded(STUCK_S)):
            raise StopRequested

    async def _is_commanded(self, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                return await self._command_received.wait()
        except TimeoutError:
            return False

    async def _hand_back(self, machine: "Machine") -> None:
        kind = self._command or ""
        try:
            if kind == "preempt":
                await self._report(machine, checkpoint=self._checkpoint(machine))
            await machine.ask(
                "release",
                lambda c, by: c.claims.release(by, self.job_id, self.epoch, kind),
                key=machine.new_key(),
                job=self.job_id,
                epoch=self.epoch,
            )
        except (Lost, Refused):
            return

    def _finish(self, machine: "Machine") -> None:
        if machine.runs.get(self.job_id) is self:
            del machine.runs[self.job_id]
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    async def _renew(self, machine: "Machine") -> None:
        while True:
            await asyncio.sleep(machine.lease_ttl_s / 4 * machine.rng.uniform(0.8, 1.2))
            try:
                await machine.ask(
                    "renew",
                    lambda c, by: c.claims.renew(by, self.job_id, self.epoch),
                    tries=2,
                    key=machine.new_key(),
                    job=self.job_id,
                    epoch=self.epoch,
                )
            except Lost:
                continue
            except Refused:
                if self._stuck or not self.ignores_fencing:
                    self._finish(machine)
                return

    async def _work(self, machine: "Machine") -> None:
        try:
            await (self._ship(machine) if self.step is Step.SHIP else self._build(machine))
        except StopRequested:
            await self._hand_back(machine)
        except Fenced:
            if self.ignores_fencing:
                await self._send_stale_requests(machine)
        except (Lost, Refused):
            pass
        self._finish(machine)

    async def _build(self, machine: "Machine") -> None:
        rng = machine.rng
        if rng.random() < 0.9 or not self.fails:
            await self._report(machine, stage=Stage.BUILDING)
        if self._kills_host and not machine.calm:
            await machine.die()
        for _ in range(rng.randint(0, 2)):
            await self._work_for(rng.uniform(0.5, 7.0))
            if rng.random() < 0.6:
                await self._report(
                    machine, checkpoint=self._checkpoint(machine), usage=self._usage()
                )
            else:
                await self._log(machine)
        await self._work_for(rng.uniform(0.2, 4.0))
        if self.fails:
            await self._fail(machine)
            return
        if self.planner:
            await self._plan(machine)
        passed: dict[str, Any] = {"verify": {"passed": True}} if self.terms.verify else {}
        next_stage = Stage.TESTING if self.terms.verify else Stage.REVIEW
        await self._report_outcome(
            machine, stage=next_stage, checkpoint=self._checkpoint(machine), **passed
        )

    async def _plan(self, machine: "Machine") -> None:
        """Upload a plan."""
        offered = ArtifactUpload(name=PLAN_FILE, sha256=hashlib.sha256(PLAN).hexdigest())

        async def add(coordinator: Coordinator, by: Caller) -> Artifact:
            async def pieces() -> AsyncIterator[bytes]:
                yield PLAN

            return await coordinator.artifacts.add(
                by, self.job_id, offered, pieces(), epoch=self.epoch
            )

        await machine.ask("plan", add, key=machine.new_key(), job=self.job_id, epoch=self.epoch)

    async def _ship(self, machine: "Machine") -> None:
        rng = machine.rng
        await self._report(machine, note="about to push")
        await asyncio.sleep(rng.uniform(0.2, 5.0))
        if self.fails:
            result = rng.choice((Result.MERGE_CONFLICT, Result.RELEASED, Result.LOST))
            await self._report_outcome(
                machine, stage=Stage.FAILED, result=result, reason="could not ship"
            )
        else:
            passed: dict[str, Any] = {"verify": {"passed": True}} if self.composite else {}
            await self._report_outcome(machine, stage=Stage.SHIPPED, **passed)

    async def _fail(self, machine: "Machine") -> None:
        result = machine.rng.choice(FAILURES)
        wait = timedelta(seconds=machine.rng.randint(2, 6))
        if result is Result.ENGINE_UNAVAILABLE:
            machine.spawn(machine.detect_again())
        await self._report_outcome(
            machine, stage=Stage.FAILED, result=result, reason=f"it was {result}", retry_after=wait
        )

    def _checkpoint(self, machine: "Machine") -> Checkpoint:
        self.progress += 1
        self.head = f"{self.progress:04d}.{self.epoch}"
        return Checkpoint(branch=f"aq/{self.job_id}", commit=self.head, factory_id=machine.id)

    def _usage(self) -> Usage:
        return Usage(engine="claude", tokens_in=self.progress * 100, cost_nano_usd=self.progress)

    async def _log(self, machine: "Machine") -> None:
        await machine.ask(
            "log",
            lambda c, by: c.logs.append(by, self.job_id, self.epoch, 0, b"a line\n"),
            tries=3,
            job=self.job_id,
            epoch=self.epoch,
        )

    async def _report(self, machine: "Machine", **fields: Any) -> None:  # noqa: ANN401 - of Report
        report = Report(job_id=self.job_id, epoch=self.epoch, **fields)
        # A checkpoint without a key could arrive late, after a newer one.
        if report.checkpoint is None and machine.rng.random() < 0.5:
            await self._send_two(machine, report)
        else:
            await self._send(machine, machine.new_key(), report)

    async def _send_two(self, machine: "Machine", report: Report) -> None:
        """Send a note and a report at once, without a key: fencing alone has to keep the order."""
        remark = Report(job_id=report.job_id, epoch=report.epoch, note="a second report follows")

        async def both(coordinator: Coordinator, by: Caller) -> Job:
            _, verdict = await coordinator.reports.report_many(by, [remark, report])
            if isinstance(verdict, Refused):
                raise verdict
            return verdict

        await machine.ask("report", both, job=report.job_id, epoch=report.epoch, report=report)

    async def _report_outcome(self, machine: "Machine", **fields: Any) -> None:  # noqa: ANN401 - of Report
        """Report the outcome; keep the report on disk until the coordinator has accepted it."""
        report = Report(job_id=self.job_id, epoch=self.epoch, **fields)
        self.outbox = [(machine.new_key(), report)]
        await self._send(machine, *self.outbox[0])

    async def _send(self, machine: "Machine", key: str, report: Report) -> None:
        await machine.ask(
            "report",
            lambda c, by: c.reports.report(by, report),
            key=key,
            job=report.job_id,
            epoch=report.epoch,
            report=report,
        )

    async def _send_stale_requests(self, machine: "Machine") -> None:
        """Send stale requests with the old epoch and with guessed ones."""
        rng = machine.rng
        for _ in range(rng.randint(2, 5)):
            await asyncio.sleep(rng.uniform(0.1, 5.0))
            epoch = self.epoch + rng.choice((0, 0, 1, 2, 2, -1))
            # A guess may match another run on this machine, which must not be disturbed.
            own_epoch_kinds = ("checkpoint", "end") if epoch == self.epoch else ()
            kind = rng.choice((*own_epoch_kinds, "renew", "release", "start"))
            try:
                await self._send_stale_request(machine, kind, epoch)
            except (Conflict, Refused, Lost):
                continue

    async def _send_stale_request(self, machine: "Machine", kind: str, epoch: int) -> None:
        job_id = self.job_id
        if kind == "renew":
            await machine.ask(
                kind, lambda c, by: c.claims.renew(by, job_id, epoch), job=job_id, epoch=epoch
            )
            return
        if kind == "release":
            await machine.ask(
                kind,
                lambda c, by: c.claims.release(by, job_id, epoch, "stale"),
                key=machine.new_key(),
                job=job_id,
                epoch=epoch,
            )
            return
        stale_reports: dict[str, dict[str, Any]] = {
            "checkpoint": {"checkpoint": self._checkpoint(machine)},
            "end": {"stage": Stage.SHIPPED if self.step is Step.SHIP else Stage.REVIEW},
            "start": {"stage": Stage.BUILDING},
        }
        report = Report(job_id=job_id, epoch=epoch, **stale_reports[kind])
        await self._send(machine, machine.new_key(), report)
