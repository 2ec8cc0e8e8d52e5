"""The agent: takes work while there is capacity, runs it, and executes commands."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import structlog

from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import Invalid, TooManyRequests, Unavailable
from gigafactory.domain.job.job import Result, Stage
from gigafactory.factory.agent.capacity import MachineCapacity, WorkOrigin
from gigafactory.factory.agent.heartbeats import RETRY_S, Heartbeats
from gigafactory.factory.agent.lease_renewer import LeaseRenewer
from gigafactory.factory.agent.local_work import LocalWork, NoLocalWork
from gigafactory.factory.agent.work_source import WorkItem, WorkSource
from gigafactory.factory.core.assignment import Assignment
from gigafactory.factory.core.stop import StopReason, StopSignal
from gigafactory.factory.executor import Executor
from gigafactory.factory.reporting.outbox_sender import OutboxSender
from gigafactory.factory.reporting.reporter import FleetReporter
from gigafactory.system.loops import run_every
from gigafactory.wire.fleet import Command
from gigafactory.wire.reports import ReportDoc
from gigafactory.wire.workers import GrantView

log = structlog.get_logger()

HAND_BACK_S = 30.0
STOPS = {"cancel": StopReason.CANCELLED, "preempt": StopReason.PREEMPTED}
"""Commands of the coordinator that stop one run."""


class ExitCondition(NamedTuple):
    """When the agent exits by itself: after `jobs_max` jobs, or after `idle_s` idle seconds."""

    jobs_max: int | None = None
    idle_s: float | None = None


NEVER_EXIT = ExitCondition()


class RunningJob(NamedTuple):
    """A job with an active run on this factory."""

    assignment: Assignment
    stop: StopSignal
    end_reported: asyncio.Event
    """Set when the end was reported: the coordinator may fill the seat from then on."""
    cleaned_up: asyncio.Event
    """Set when nothing of the run remains on this machine."""


class Agent:
    """The worker of one factory in its fleet."""

    def __init__(
        self,
        client: AsyncClient,
        executor: Executor,
        sender: OutboxSender,
        source: WorkSource,
        heartbeats: Heartbeats,
        capacity: MachineCapacity,
        *,
        local_work: LocalWork | None = None,
        exit_when: ExitCondition = NEVER_EXIT,
    ) -> None:
        self._client = client
        self._executor = executor
        self._sender = sender
        self._source = source
        self._heartbeats = heartbeats
        self._capacity = capacity
        self._local_work = local_work or NoLocalWork()
        self._exit_when = exit_when
        self._fleet_jobs_started = 0
        self._draining = False
        self._running: dict[str, RunningJob] = {}
        """By run id: a job may also have a stale run that is still stopping."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        """Set while no fleet job runs."""
        self._idle.set()
        self._exit_requested = asyncio.Event()
        capacity.track_running(
            WorkOrigin.FLEET, lambda: [one.assignment.engine for one in self._leased()]
        )

    @property
    def running_jobs(self) -> frozenset[str]:
        """The ids of the jobs with an active run."""
        return frozenset(one.assignment.job_id for one in self._running.values())

    @property
    def draining(self) -> bool:
        """Whether the agent takes no new work."""
        return self._draining

    def lease_epochs(self) -> Mapping[str, int]:
        """Return the newest lease epoch of each active job."""
        held = [one.assignment for one in self._leased()]
        return {job.job_id: job.epoch for job in sorted(held, key=lambda job: job.epoch)}

    def _leased(self) -> list[RunningJob]:
        """Return the runs that hold a lease and a seat; the others are only cleaning up."""
        return [one for one in self._running.values() if not one.end_reported.is_set()]

    async def join(self) -> None:
        """Join the fleet, after delivering the reports of an earlier process.

        The order matters: the coordinator treats runs of an earlier instance as lost. Raises
        Refused.
        """
        await self._sender.deliver_pending()
        await self._heartbeats.send_first()
        log.info("joined", fleet=self._client.url)

    async def run(self) -> None:
        """Work until an exit condition holds and all started runs are reported."""
        duties = [
            asyncio.create_task(self._join_and_heartbeat()),
            asyncio.create_task(self._when_joined(self._sender.run)),
            asyncio.create_task(self._when_joined(self._renew_leases)),
            asyncio.create_task(self._when_joined(lambda: self._consume(self._source.receive()))),
            asyncio.create_task(
                self._when_joined(lambda: self._consume(self._source.poll_alongside_stream()))
            ),
            asyncio.create_task(self._exit_when_idle()),
            asyncio.create_task(self._run_local_work()),
        ]
        enough = asyncio.create_task(self._exit_requested.wait())
        try:
            await asyncio.wait([enough, *duties], return_when=asyncio.FIRST_COMPLETED)
            for duty in duties:
                if duty.done():
                    duty.result()
            await self._wait_finished()
        except asyncio.CancelledError:
            await self._hand_back()
            raise
        finally:
            for task in (*self._tasks, *duties, enough):
                task.cancel()
            await asyncio.gather(*self._tasks, *duties, enough, return_exceptions=True)

    async def _join_and_heartbeat(self) -> None:
        while not self._heartbeats.joined.is_set():
            try:
                await self.join()
            except (Unavailable, TooManyRequests) as error:
                log.warning("cannot join the fleet; retrying", reason=error.detail)
                await asyncio.sleep(RETRY_S)
        await self._heartbeats.run(self._execute_all)

    async def _when_joined(self, duty: Callable[[], Awaitable[None]]) -> None:
        await self._heartbeats.joined.wait()
        await duty()

    async def _renew_leases(self) -> None:
        renewer = LeaseRenewer(self._client, self.lease_epochs, self.stop_fenced_run)
        await run_every(self._heartbeats.renew_every_s, renewer.renew_all, name="leases")

    async def _run_local_work(self) -> None:
        await self._local_work.run()
        await self._exit_requested.wait()

    async def _wait_finished(self) -> None:
        """Wait until no run is active and all reports are delivered."""
        self._local_work.drain()
        await self._idle.wait()
        await self._local_work.wait_idle()
        if self._heartbeats.joined.is_set():
            await self._sender.wait_empty()

    def drain(self) -> None:
        """Take no new work and exit when all runs end; called again: hand all runs back now."""
        if self._draining:
            self._local_work.stop()
            for one in self._running.values():
                one.stop.request(StopReason.DRAINED, "the factory is stopping")
        self._start_draining()

    def _start_draining(self) -> None:
        self._draining = True
        self._local_work.drain()
        self._exit_requested.set()
        # Stop offers at once, so that jobs handed back are not offered to this factory again.
        self._heartbeats.send_soon()

    async def _hand_back(self) -> None:
        """Save and hand back all active runs, within a time limit."""
        self.drain()
        self.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HAND_BACK_S):
                await self._wait_finished()

    def stop_fenced_run(self, job_id: str, epoch: int) -> None:
        """Stop the run of a job whose lease was taken away."""
        for one in self._runs_of(job_id):
            if one.assignment.epoch == epoch:
                one.stop.request(StopReason.FENCED, "the lease was taken away")

    def _runs_of(self, job_id: str) -> list[RunningJob]:
        return [one for one in self._running.values() if one.assignment.job_id == job_id]

    def can_start(self, engine: str | None) -> bool:
        """Return whether a run with this engine (None: any engine) could start now."""
        return not (self._draining or self.job_limit_reached) and self._capacity.fleet_can_start(
            engine
        )

    @property
    def job_limit_reached(self) -> bool:
        """Whether the agent has started `jobs_max` jobs, fleet and local ones together."""
        return (
            self._exit_when.jobs_max is not None and self._jobs_started >= self._exit_when.jobs_max
        )

    @property
    def _jobs_started(self) -> int:
        return self._fleet_jobs_started + self._local_work.jobs_started

    def on_capacity_change(self) -> None:
        """Tell the coordinator about changed capacity after a run started or ended."""
        self._heartbeats.send_soon()
        self._source.capacity_freed.set()
        if self.job_limit_reached and not self._running:
            self._exit_requested.set()

    async def _consume(self, works: AsyncIterator[WorkItem]) -> None:
        async for work in works:
            if isinstance(work, Command):
                self._execute(work)
            else:
                self._start(work)

    def _execute_all(self, commands: Sequence[Command]) -> None:
        if not any(command.type == "ask" for command in commands):
            self._source.polling_requested.clear()
        for command in commands:
            self._execute(command)

    def _execute(self, command: Command) -> None:
        if command.type == "drain":
            self._start_draining()
        elif command.type == "ask":
            self._source.polling_requested.set()
        elif command.type in STOPS:
            for one in self._runs_of(command.job_id or ""):
                one.stop.request(
                    STOPS[command.type], f"requested by the coordinator: {command.type}"
                )

    def _end_unstarted(self, grant: GrantView, stage: Stage, result: Result, reason: str) -> None:
        """Report the end of a run that did not start."""
        report = ReportDoc(lease_epoch=grant.lease_epoch, stage=stage, result=result, reason=reason)
        self._sender.send(grant.job.id, grant.lease_epoch, report.fields, last=True)

    def _start(self, grant: GrantView) -> None:
        try:
            assignment = Assignment.from_grant(grant)
        except Invalid as wrong:
            self._end_unstarted(grant, Stage.FAILED, Result.CRASH, wrong.detail)
            return
        if self._capacity.taken_by_local_work(assignment.engine):
            reason = "no capacity left: a local job took it"
            self._end_unstarted(grant, Stage.QUEUED, Result.RELEASED, reason)
            return
        self._fleet_jobs_started += 1
        self._capacity.record_start(WorkOrigin.FLEET, assignment.engine)
        stale = self._runs_of(assignment.job_id)
        running = RunningJob(
            assignment, StopSignal(), end_reported=asyncio.Event(), cleaned_up=asyncio.Event()
        )
        self._running[assignment.run_id] = running
        self._idle.clear()
        task = asyncio.create_task(self._run_job(running, stale), name=assignment.run_id)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(
                "run failed without a report; its lease will expire",
                run=task.get_name(),
                exc_info=error,
            )

    async def _run_job(self, running: RunningJob, stale: Iterable[RunningJob]) -> None:
        assignment = running.assignment
        log.info(
            "run started", job=assignment.name, run=assignment.run_id, engine=assignment.engine
        )
        reporter = FleetReporter(self._client, self._sender, assignment, running.end_reported)
        try:
            for one in stale:
                # A run under an older lease still occupies the worktree of the job.
                one.stop.request(StopReason.FENCED, "the job was granted again")
                await one.cleaned_up.wait()
            outcome = await self._executor.run(assignment, reporter, running.stop)
            log.info("run ended", job=assignment.name, result=outcome.result, why=outcome.reason)
            self._local_work.record_outcome(assignment.engine, outcome)
        finally:
            del self._running[assignment.run_id]
            running.end_reported.set()
            running.cleaned_up.set()
            if not self._running:
                self._idle.set()
            self.on_capacity_change()

    async def _exit_when_idle(self) -> None:
        if self._exit_when.idle_s is None:
            await asyncio.Event().wait()
            return
        while True:
            await self._idle.wait()
            await self._local_work.wait_idle()
            jobs_before = self._jobs_started
            await asyncio.sleep(self._exit_when.idle_s)
            if jobs_before == self._jobs_started and not self._running:
                self._exit_requested.set()
                return
