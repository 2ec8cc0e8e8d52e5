"""One run on a machine: begun, renewed, checkpointed, ended well or badly, or after its time."""

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


class Ordered(Exception):  # noqa: N818 - named after what happened
    """The coordinator wants the run to stop."""


class Run:
    """What a machine knows of a job that it was given; this much is on its disk."""

    def __init__(self, grant: Grant, machine: "Machine") -> None:
        """Take over where the last accepted checkpoint is."""
        self.job_id = grant.job.id
        self.epoch = grant.lease.epoch
        self.step = grant.lease.step
        self.terms = grant.job.terms
        self.composite = grant.job.composite
        self.planner = grant.job.planner
        head = grant.job.checkpoint
        self.reached = int(head.commit.partition(".")[0]) if head else 0
        self.head = head.commit if head else None
        rng = machine.rng
        self.stubborn = not machine.calm and rng.random() < 0.4
        self.fails = not machine.calm and rng.random() < 0.35
        self.outbox: list[tuple[str, Report]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._ordered: str | None = None
        self._order = asyncio.Event()

    def begin(self, machine: "Machine") -> None:
        """Work, and renew the lease beside it."""
        self._tasks = [machine.spawn(self._work(machine)), machine.spawn(self._renew(machine))]

    def stopped(self) -> None:
        """The process is gone; what is on the disk stays."""
        self._tasks = []
        self._order.clear()

    def taken_up(self, rng: random.Random) -> bool:
        """Whether a new process goes on with this run."""
        return rng.random() < 0.5

    async def replay(self, machine: "Machine") -> None:
        """Say what the former process had still to say, and go on."""
        for key, report in self.outbox[:1]:
            try:
                await self._send(machine, key, report)
            except (Lost, Refused):
                self._over(machine)
                return
        if self.outbox:
            self._over(machine)
        else:
            self.begin(machine)

    def command(self, kind: str, machine: "Machine") -> None:
        """Hear what the coordinator wants: stop, or checkpoint and hand back."""
        if machine.rng.random() < 0.8 or machine.calm:
            self._ordered = kind
            self._order.set()

    async def _pace(self, seconds: float) -> None:
        """Work on for a while.

        Raises Ordered as soon as the coordinator wants something else.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._order.wait()
        except TimeoutError:
            return
        raise Ordered

    async def _hand_back(self, machine: "Machine") -> None:
        kind = self._ordered or ""
        try:
            if kind == "preempt":
                await self._tell(machine, checkpoint=self._checkpoint(machine))
            await machine.ask(
                "release",
                lambda c, by: c.claims.release(by, self.job_id, self.epoch, kind),
                key=machine.new_key(),
                job=self.job_id,
                epoch=self.epoch,
            )
        except (Lost, Refused):
            return

    def _over(self, machine: "Machine") -> None:
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
                if not self.stubborn:
                    self._over(machine)
                return

    async def _work(self, machine: "Machine") -> None:
        try:
            await (self._ship(machine) if self.step is Step.SHIP else self._build(machine))
        except Ordered:
            await self._hand_back(machine)
        except Fenced:
            if self.stubborn:
                await self._insist(machine)
        except (Lost, Refused):
            pass
        self._over(machine)

    async def _build(self, machine: "Machine") -> None:
        rng = machine.rng
        if rng.random() < 0.9 or not self.fails:
            await self._tell(machine, stage=Stage.BUILDING)
        for _ in range(rng.randint(0, 2)):
            await self._pace(rng.uniform(0.5, 7.0))
            if rng.random() < 0.6:
                await self._tell(machine, checkpoint=self._checkpoint(machine), usage=self._usage())
            else:
                await self._log(machine)
        await self._pace(rng.uniform(0.2, 4.0))
        if self.fails:
            await self._fail(machine)
            return
        if self.planner:
            await self._plan(machine)
        passed: dict[str, Any] = {"verify": {"passed": True}} if self.terms.verify else {}
        wants = Stage.TESTING if self.terms.verify else Stage.REVIEW
        await self._end(machine, stage=wants, checkpoint=self._checkpoint(machine), **passed)

    async def _plan(self, machine: "Machine") -> None:
        """Hand a plan in."""
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
        await self._tell(machine, note="about to push")
        await asyncio.sleep(rng.uniform(0.2, 5.0))
        if self.fails:
            result = rng.choice((Result.MERGE_CONFLICT, Result.RELEASED, Result.LOST))
            await self._end(machine, stage=Stage.FAILED, result=result, reason="could not ship")
        else:
            passed: dict[str, Any] = {"verify": {"passed": True}} if self.composite else {}
            await self._end(machine, stage=Stage.SHIPPED, **passed)

    async def _fail(self, machine: "Machine") -> None:
        result = machine.rng.choice(FAILURES)
        wait = timedelta(seconds=machine.rng.randint(2, 6))
        if result is Result.ENGINE_UNAVAILABLE:
            machine.spawn(machine.detect_again())
        await self._end(
            machine, stage=Stage.FAILED, result=result, reason=f"it was {result}", retry_after=wait
        )

    def _checkpoint(self, machine: "Machine") -> Checkpoint:
        self.reached += 1
        self.head = f"{self.reached:04d}.{self.epoch}"
        return Checkpoint(branch=f"aq/{self.job_id}", commit=self.head, factory_id=machine.id)

    def _usage(self) -> Usage:
        return Usage(engine="claude", tokens_in=self.reached * 100, cost_nano_usd=self.reached)

    async def _log(self, machine: "Machine") -> None:
        await machine.ask(
            "log",
            lambda c, by: c.logs.append(by, self.job_id, self.epoch, 0, b"a line\n"),
            tries=3,
            job=self.job_id,
            epoch=self.epoch,
        )

    async def _tell(self, machine: "Machine", **fields: Any) -> None:  # noqa: ANN401 - of Report
        report = Report(job_id=self.job_id, epoch=self.epoch, **fields)
        # A checkpoint without a key could come late, after a newer one.
        if report.checkpoint is None and machine.rng.random() < 0.5:
            await self._send_two(machine, report)
        else:
            await self._send(machine, machine.new_key(), report)

    async def _send_two(self, machine: "Machine", report: Report) -> None:
        """Send a remark and a report at once, without a key: fencing alone has to keep order."""
        remark = Report(job_id=report.job_id, epoch=report.epoch, note="there is more to tell")

        async def both(coordinator: Coordinator, by: Caller) -> Job:
            _, verdict = await coordinator.reports.report_many(by, [remark, report])
            if isinstance(verdict, Refused):
                raise verdict
            return verdict

        await machine.ask("report", both, job=report.job_id, epoch=report.epoch, report=report)

    async def _end(self, machine: "Machine", **fields: Any) -> None:  # noqa: ANN401 - of Report
        """Say how it came out; kept on disk until the coordinator has heard it."""
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

    async def _insist(self, machine: "Machine") -> None:
        """Go on as if nothing had happened, with the old epoch and with guessed ones."""
        rng = machine.rng
        for _ in range(rng.randint(2, 5)):
            await asyncio.sleep(rng.uniform(0.1, 5.0))
            epoch = self.epoch + rng.choice((0, 0, 1, 2, 2, -1))
            # A guess may be right for another run on this machine, whose work it must not touch.
            tricks = ("checkpoint", "end") if epoch == self.epoch else ()
            what = rng.choice((*tricks, "renew", "release", "start"))
            try:
                await self._pretend(machine, what, epoch)
            except (Conflict, Refused, Lost):
                continue

    async def _pretend(self, machine: "Machine", what: str, epoch: int) -> None:
        job_id = self.job_id
        if what == "renew":
            await machine.ask(
                what, lambda c, by: c.claims.renew(by, job_id, epoch), job=job_id, epoch=epoch
            )
            return
        if what == "release":
            await machine.ask(
                what,
                lambda c, by: c.claims.release(by, job_id, epoch, "stale"),
                key=machine.new_key(),
                job=job_id,
                epoch=epoch,
            )
            return
        tricks: dict[str, dict[str, Any]] = {
            "checkpoint": {"checkpoint": self._checkpoint(machine)},
            "end": {"stage": Stage.SHIPPED if self.step is Step.SHIP else Stage.REVIEW},
            "start": {"stage": Stage.BUILDING},
        }
        report = Report(job_id=job_id, epoch=epoch, **tricks[what])
        await self._send(machine, machine.new_key(), report)
