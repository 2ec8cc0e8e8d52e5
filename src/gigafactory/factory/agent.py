"""The agent: takes work as far as there is room, runs it, obeys, and ends when it should."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import structlog

from gigafactory.client.answers import Command, Grant
from gigafactory.client.asynchronous import AsyncClient
from gigafactory.domain.engine import program
from gigafactory.domain.errors import Invalid
from gigafactory.factory.assignment import Assignment
from gigafactory.factory.beats import Heartbeats
from gigafactory.factory.courier import Courier
from gigafactory.factory.executor import Executor
from gigafactory.factory.leases import LeaseKeeper
from gigafactory.factory.reporting import FleetReporter
from gigafactory.factory.sources import WorkSource
from gigafactory.factory.stopping import Stop, Why
from gigafactory.loops import every

log = structlog.get_logger()

HAND_BACK_S = 30.0
STOPS = {"cancel": Why.CANCELLED, "preempt": Why.PREEMPTED}
"""The commands that end one run."""


class Ends(NamedTuple):
    """When an agent has done enough: after so many jobs, or so many seconds without any."""

    jobs_max: int | None = None
    idle_s: float | None = None


UNENDING = Ends()


class RunningJob(NamedTuple):
    """One job that is being worked on."""

    assignment: Assignment
    stop: Stop
    told: asyncio.Event
    """Its end was reported: the coordinator may fill its seat from now on."""
    ended: asyncio.Event
    """Nothing is left of it."""


class Agent:
    """One factory's work with the fleet."""

    def __init__(
        self,
        client: AsyncClient,
        executor: Executor,
        courier: Courier,
        source: WorkSource,
        beats: Heartbeats,
        *,
        ends: Ends = UNENDING,
    ) -> None:
        """Put the parts together; nothing begins before `run`."""
        self._client = client
        self._executor = executor
        self._courier = courier
        self._source = source
        self._beats = beats
        self._ends = ends
        self._taken = 0
        self._draining = False
        self._running: dict[str, RunningJob] = {}
        """By run: a job may have a stale one that is still stopping, beside its own."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._quiet = asyncio.Event()
        """Set while nothing runs."""
        self._quiet.set()
        self._enough = asyncio.Event()

    @property
    def running(self) -> frozenset[str]:
        """The jobs that are being worked on."""
        return frozenset(one.assignment.job_id for one in self._running.values())

    @property
    def draining(self) -> bool:
        """Whether it takes nothing new."""
        return self._draining

    def epochs(self) -> Mapping[str, int]:
        """The lease of each job that runs, its newest."""
        held = [one.assignment for one in self._seated()]
        return {job.job_id: job.epoch for job in sorted(held, key=lambda job: job.epoch)}

    def _seated(self) -> list[RunningJob]:
        """Those that hold their lease, and with it their seat; the others are clearing up."""
        return [one for one in self._running.values() if not one.told.is_set()]

    async def run(self) -> None:
        """Work until there is a reason to end, and everything that was begun has been reported."""
        keeper = LeaseKeeper(self._client, self.epochs, self.fenced)
        duties = [
            asyncio.create_task(self._courier.run()),
            asyncio.create_task(every(self._beats.renew_every_s, keeper.step, name="leases")),
            asyncio.create_task(self._beats.run(self._obey)),
            asyncio.create_task(self._take()),
            asyncio.create_task(self._watch_idleness()),
        ]
        enough = asyncio.create_task(self._enough.wait())
        try:
            await asyncio.wait([enough, *duties], return_when=asyncio.FIRST_COMPLETED)
            for duty in duties:
                if duty.done():
                    duty.result()
            await self._quiet.wait()
            await self._courier.empty()
        except asyncio.CancelledError:
            await self._hand_back()
            raise
        finally:
            for task in (*self._tasks, *duties, enough):
                task.cancel()
            await asyncio.gather(*self._tasks, *duties, enough, return_exceptions=True)

    def drain(self) -> None:
        """Take nothing new; end when what runs is done. Asked again: hand everything back now."""
        if self._draining:
            for one in self._running.values():
                one.stop.ask(Why.DRAINED, "the factory is stopping")
        self._begin_to_end()

    def _begin_to_end(self) -> None:
        self._draining = True
        self._enough.set()
        # Nothing should be offered here any more, least of all what is handed back.
        self._beats.soon()

    async def _hand_back(self) -> None:
        """Save what runs, and give it back, as far as that can be done in a moment."""
        self.drain()
        self.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HAND_BACK_S):
                await self._quiet.wait()
                await self._courier.empty()

    def fenced(self, job_id: str, epoch: int) -> None:
        """Stop a run whose lease is another's by now."""
        for one in self._runs_of(job_id):
            if one.assignment.epoch == epoch:
                one.stop.ask(Why.FENCED, "the lease was taken away")

    def _runs_of(self, job_id: str) -> list[RunningJob]:
        return [one for one in self._running.values() if one.assignment.job_id == job_id]

    def has_room(self, engine: str | None) -> bool:
        """Whether a run with this engine (None: with any) could start now."""
        seated = self._seated()
        if self._draining or self._spent or len(seated) >= self._executor.slots:
            return False
        if engine is None:
            return True
        name = program(engine)
        busy = sum(program(one.assignment.engine or "") == name for one in seated)
        return busy < self._executor.seats(name)

    @property
    def _spent(self) -> bool:
        return self._ends.jobs_max is not None and self._taken >= self._ends.jobs_max

    async def _take(self) -> None:
        async for work in self._source.work():
            if isinstance(work, Command):
                self._obey(work)
            else:
                self._begin(work)

    def _obey(self, command: Command) -> None:
        if command.type == "drain":
            self._begin_to_end()
        elif command.type in STOPS:
            for one in self._runs_of(command.job_id or ""):
                one.stop.ask(STOPS[command.type], f"the coordinator says: {command.type}")

    def _begin(self, grant: Grant) -> None:
        try:
            assignment = Assignment.of(grant)
        except Invalid as wrong:
            told = {"stage": "failed", "result": "crash", "reason": wrong.detail}
            self._courier.send(grant.job.id, grant.lease_epoch, told, last=True)
            return
        self._taken += 1
        stale = self._runs_of(assignment.job_id)
        mine = RunningJob(assignment, Stop(), told=asyncio.Event(), ended=asyncio.Event())
        self._running[assignment.run_id] = mine
        self._quiet.clear()
        task = asyncio.create_task(self._work(mine, stale), name=assignment.run_id)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("run not reported; its lease runs out", run=task.get_name(), exc_info=error)

    async def _work(self, mine: RunningJob, stale: Iterable[RunningJob]) -> None:
        assignment = mine.assignment
        log.info("run begins", job=assignment.name, run=assignment.run_id, engine=assignment.engine)
        reporter = FleetReporter(self._client, self._courier, assignment, mine.told)
        try:
            for one in stale:
                # Whoever still works on this job under an older lease is in its place.
                one.stop.ask(Why.FENCED, "the job was granted anew")
                await one.ended.wait()
            outcome = await self._executor.run(assignment, reporter, mine.stop)
            log.info("run ended", job=assignment.name, result=outcome.result, why=outcome.reason)
        finally:
            del self._running[assignment.run_id]
            mine.told.set()
            mine.ended.set()
            self._beats.soon()
            self._source.room.set()
            if not self._running:
                self._quiet.set()
            if self._spent and not self._running:
                self._enough.set()

    async def _watch_idleness(self) -> None:
        if self._ends.idle_s is None:
            await asyncio.Event().wait()
            return
        while True:
            await self._quiet.wait()
            taken = self._taken
            await asyncio.sleep(self._ends.idle_s)
            if taken == self._taken and not self._running:
                self._enough.set()
                return
