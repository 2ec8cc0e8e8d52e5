"""The runner: takes jobs of a folder while there is capacity, runs them, and stops cleanly."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Protocol

import msgspec
import structlog

from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.folder_rules import fail_unroutable
from gigafactory.domain.job.job import FINAL, Job, Stage
from gigafactory.domain.job.lease import grant, release_revoked
from gigafactory.domain.job.run import end_run, start_run
from gigafactory.domain.manifest.job_file import parse_snapshot
from gigafactory.factory.core.assignment import Assignment
from gigafactory.factory.core.stop import StopReason, StopSignal
from gigafactory.factory.executor import Executor
from gigafactory.folder.duties.cron import run_due_schedules
from gigafactory.folder.duties.recovery import recover
from gigafactory.folder.duties.unblocker import move_files, unblock_jobs
from gigafactory.folder.queue.claim import HeldClaim, own_claim
from gigafactory.folder.queue.halt import halted
from gigafactory.folder.queue.intake import rebuild_lost, take_in
from gigafactory.folder.queue.machine import LocalMachine
from gigafactory.folder.queue.profiles import FolderProfiles
from gigafactory.folder.queue.record import JobRecord
from gigafactory.folder.queue.scheduler import JobChoice, May, choices, waiting
from gigafactory.folder.queue.store import FolderQueue, LockedQueue
from gigafactory.folder.reporter import FolderReporter


class LocalNeighbours(Protocol):
    """Other work on this machine."""

    def may_start(self, engine: str | None) -> bool:
        """Return whether a run with this engine (None: without one) may start now."""
        ...

    def run_started(self, engine: str | None) -> None:
        """Note that a run has started."""
        ...

    def run_ended(self) -> None:
        """Note that a run has ended and released everything."""
        ...

    def report_waiting(self, engines: Iterable[str | None]) -> None:
        """Report engines for which jobs wait that could start if there were capacity."""
        ...


class NoNeighbours:
    """There is no other work on this machine."""

    def may_start(self, engine: str | None) -> bool:  # noqa: ARG002 - the port's
        return True

    def run_started(self, engine: str | None) -> None:
        """Do nothing."""

    def run_ended(self) -> None:
        """Do nothing."""

    def report_waiting(self, engines: Iterable[str | None]) -> None:
        """Do nothing."""


LOOKS_EVERY_S = 0.5
PAUSE_S = 5.0
"""After a folder could not be read or written."""
LEASE = timedelta(days=3650)
"""A claim lasts as long as its process; it does not expire."""
ALONE = {"mode": "folder", "propensity": 1.0}
"""The decision that placed a job here: there is no other place."""

log = structlog.get_logger()

Wanted = Callable[[Job], bool]


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A job with an active run."""

    assignment: Assignment
    stop: StopSignal
    held: HeldClaim


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a runner did: its jobs as it left them."""

    taken: tuple[JobRecord, ...] = ()
    invalid: tuple[str, ...] = ()
    """Files that were not valid jobs."""

    @property
    def failed(self) -> bool:
        """Whether a job failed, or was not completed."""
        good = {Stage.REVIEW, Stage.TESTING, Stage.SHIPPED}
        return bool(self.invalid) or any(record.job.stage not in good for record in self.taken)


class Runner:
    """Runs the jobs of a folder in one process."""

    def __init__(
        self,
        queue: FolderQueue,
        executor: Executor,
        machine: LocalMachine,
        rules: FolderProfiles,
        *,
        wanted: Wanted = lambda _: True,
        neighbours: LocalNeighbours | None = None,
    ) -> None:
        """Take the jobs that are wanted; nothing starts before `run`."""
        self._queue = queue
        self._executor = executor
        self._machine = machine
        self._rules = rules
        self._wanted = wanted
        self._neighbours = neighbours or NoNeighbours()
        self._instance_id = uuid.uuid4().hex
        self._running: dict[str, Running] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._taken: dict[str, None] = {}
        self._draining = False
        self._news = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def running(self) -> Mapping[str, Running]:
        """Return the active runs by job."""
        return self._running

    @property
    def jobs_started(self) -> int:
        """Return the number of jobs that it has started."""
        return len(self._taken)

    async def wait_idle(self) -> None:
        """Wait until nothing runs."""
        await self._quiet.wait()

    def drain(self) -> None:
        """Take nothing new, and end when all runs have ended; on a second call, hand back now."""
        if self._draining:
            self.stop()
        self.stop_taking()

    def stop_taking(self) -> None:
        """Take nothing new."""
        self._draining = True
        self._news.set()

    def stop(self) -> None:
        """Stop all runs now, and hand their jobs back with the work saved."""
        for one in self._running.values():
            one.stop.request(StopReason.DRAINED, "the runner is stopping")

    async def run(self, *, once: bool = False) -> Summary:
        """Work until drained; with `once`, until the jobs taken need nothing more."""
        reported = set(self._invalid())
        try:
            while True:
                self._news.clear()
                left, pause_s = True, LOOKS_EVERY_S
                try:
                    await recover(self._queue)
                    left = self._step()
                except (OSError, Unavailable) as trouble:
                    if once:
                        raise
                    log.warning("folder not readable", reason=str(trouble))
                    pause_s = PAUSE_S
                if not self._running and (self._draining or (once and not left)):
                    break
                await self._pause(pause_s)
        finally:
            await self._stop()
        jobs = self._queue.look()
        taken = tuple(jobs[job_id] for job_id in self._taken if job_id in jobs)
        invalid = tuple(name for name in self._invalid() if name not in reported)
        return Summary(taken=taken, invalid=invalid)

    def _invalid(self) -> list[str]:
        board = self._queue.board
        return [p.name for p in board.files("failed") if board.errors(p.name).exists()]

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def _stop(self) -> None:
        """Stop all runs: their work is saved and handed back, whatever interrupted us."""
        if self._tasks:
            self.stop()
            await asyncio.wait(self._tasks)

    def _step(self) -> bool:
        """Do all that can be done now; return whether a job becomes ready by itself later."""
        with self._queue.open() as locked:
            self._queue.board.create()
            move_files(locked)
            self._stop_cancelled_runs(locked)
            self._rules.look()
            rebuild_lost(locked, self._rules)
            take_in(locked, self._rules)
            run_due_schedules(locked)
            unblock_jobs(locked)
            if not self._draining:
                for choice in self._choices(locked, self._neighbours.may_start):
                    self._start(locked, choice)
            unblock_jobs(locked)
            self._neighbours.report_waiting(self._waiting(locked))
            return self._has_remaining_work(locked)

    def _has_remaining_work(self, locked: LockedQueue) -> bool:
        """Return whether a job of ours waits for its retry."""
        ours = (locked.records[job_id].job for job_id in self._taken if job_id in locked.records)
        return any(
            job.stage is Stage.QUEUED and job.not_before is not None and job.not_before > locked.now
            for job in ours
        ) or any(self._choices(locked, lambda _: True))

    def _choices(self, locked: LockedQueue, may: May) -> Iterator[JobChoice]:
        if halted(locked.board) is not None:
            return iter(())
        job_choices = choices(locked, self._machine, self._executor.slots, may)
        return (choice for choice in job_choices if self._wanted(choice.record.job))

    def _waiting(self, locked: LockedQueue) -> list[str | None]:
        if self._draining or halted(locked.board) is not None:
            return []
        reasons = waiting(locked, self._machine, self._executor.slots)
        return [engine for job, engine in reasons if self._wanted(job)]

    def _stop_cancelled_runs(self, locked: LockedQueue) -> None:
        """Stop the runs of jobs that were cancelled or taken away."""
        for job_id, one in self._running.items():
            job = locked.records[job_id].job if job_id in locked.records else None
            if job is not None and job.lease and job.lease.epoch == one.assignment.epoch:
                if job.preemption is not None:
                    one.stop.request(StopReason.PREEMPTED, job.preemption.reason)
            elif job is not None and job.stage in FINAL:
                one.stop.request(StopReason.CANCELLED, job.reason or "the job was cancelled")
            else:
                one.stop.request(StopReason.FENCED, "the job was taken away")

    def _start(self, locked: LockedQueue, choice: JobChoice) -> None:
        record = choice.record
        held = HeldClaim.take(self._queue.board, record.key)
        if held is None:
            return
        change = grant(
            record.job,
            self._machine.id,
            self._instance_id,
            choice.engine,
            now=locked.now,
            ttl=LEASE,
        )
        epoch = change.after.lease_epoch
        held.write(own_claim(self._instance_id, epoch, now=locked.now))
        record = locked.commit(change, start_run(change.after, ALONE))
        self._taken[record.job.id] = None
        if choice.never is not None:
            self._refuse(locked, record, choice.never)
            held.release()
            return
        protected = self._rules.protected
        one = Running(assignment=assignment_of(record, protected), stop=StopSignal(), held=held)
        self._running[record.job.id] = one
        self._quiet.clear()
        self._neighbours.run_started(choice.engine)
        task = asyncio.create_task(self._work(one), name=one.assignment.run_id)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """Forget a run; the next look finds a crashed one as an orphan."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("run crashed", run=task.get_name(), exc_info=error)

    def _refuse(self, locked: LockedQueue, record: JobRecord, why: str) -> None:
        change = fail_unroutable(
            record.job, self._machine.id, record.job.lease_epoch, why, now=locked.now
        )
        job = change.after
        assert job.result is not None, "a failed job has a result"
        locked.commit(change, end_run(record.runs[-1], job.result, why, now=locked.now))
        log.warning("cannot run here", job=job.name, reason=why)

    async def _work(self, one: Running) -> None:
        job = one.assignment
        log.info("run started", job=job.name, run=job.run_id, engine=job.engine)

        def fenced() -> None:
            one.stop.request(StopReason.FENCED, "the job was taken away")

        reporter = FolderReporter(self._queue, self._machine.id, job, fenced)
        try:
            outcome = await self._executor.run(job, reporter, one.stop)
            log.info("run ended", job=job.name, result=outcome.result, why=outcome.reason)
            self._machine.note(job.engine, outcome, now=self._queue.clock.now())
            self._release_revoked(one)
        finally:
            one.held.release()
            del self._running[job.job_id]
            if not self._running:
                self._quiet.set()
            self._news.set()
            self._neighbours.run_ended()

    def _release_revoked(self, one: Running) -> None:
        """Release leases that were taken away while we ran."""
        job_id, epoch = one.assignment.job_id, one.assignment.epoch
        with self._queue.open() as locked:
            record = locked.records.get(job_id)
            if record is not None and any(lease.epoch == epoch for lease in record.job.ending):
                actor = f"factory:{self._machine.id}"
                locked.commit(release_revoked(record.job, epoch, now=locked.now, actor=actor))


def assignment_of(record: JobRecord, protected: tuple[str, ...] = ()) -> Assignment:
    """Return the assignment of a job that was just granted."""
    job = record.job
    assert job.lease is not None, "only a leased job can run"
    return Assignment(
        job_id=job.id,
        name=job.name,
        title=job.title,
        run_id=job.lease.run_id,
        epoch=job.lease.epoch,
        step=job.lease.step,
        engine=job.lease.engine,
        manifest=parse_snapshot(msgspec.json.decode(record.manifest)),
        body=record.body,
        follow_ups=job.follow_ups,
        checkpoint=job.checkpoint,
        attempt=job.attempts + 1,
        worked_s=job.worked_s,
        protected_globs=protected,
        flags=job.flags,
        result=job.result,
    )
