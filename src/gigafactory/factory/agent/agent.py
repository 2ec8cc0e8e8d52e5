"""The agent: takes work as far as there is room, runs it, obeys, and ends when it should."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import structlog

from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.domain.errors import Invalid, TooMany, Unavailable
from gigafactory.factory.agent.capacity import Room, Side
from gigafactory.factory.agent.heartbeats import AGAIN_S, Heartbeats
from gigafactory.factory.agent.lease_renewer import LeaseKeeper
from gigafactory.factory.agent.local_work import Beside, Nothing
from gigafactory.factory.agent.work_source import Work, WorkSource
from gigafactory.factory.core.assignment import Assignment
from gigafactory.factory.core.stop import Stop, Why
from gigafactory.factory.executor import Executor
from gigafactory.factory.reporting.outbox_sender import Courier
from gigafactory.factory.reporting.reporter import FleetReporter
from gigafactory.system.loops import every
from gigafactory.wire.answers import Command, Grant

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
        room: Room,
        *,
        beside: Beside | None = None,
        ends: Ends = UNENDING,
    ) -> None:
        """Put the parts together; nothing begins before `run`."""
        self._client = client
        self._executor = executor
        self._courier = courier
        self._source = source
        self._beats = beats
        self._room = room
        self._beside = beside or Nothing()
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
        room.occupied_by(Side.FLEET, lambda: [one.assignment.engine for one in self._seated()])

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

    async def join(self) -> None:
        """Join the fleet; what ended before is told first: a new instance has lost what it ran.

        Raises Refused.
        """
        await self._courier.replay()
        await self._beats.first()
        log.info("joined", fleet=self._client.url)

    async def run(self) -> None:
        """Work until there is a reason to end, and everything that was begun has been reported."""
        duties = [
            asyncio.create_task(self._beat()),
            asyncio.create_task(self._when_joined(self._courier.run)),
            asyncio.create_task(self._when_joined(self._keep_leases)),
            asyncio.create_task(self._when_joined(lambda: self._take(self._source.work()))),
            asyncio.create_task(self._when_joined(lambda: self._take(self._source.beside()))),
            asyncio.create_task(self._watch_idleness()),
            asyncio.create_task(self._work_beside()),
        ]
        enough = asyncio.create_task(self._enough.wait())
        try:
            await asyncio.wait([enough, *duties], return_when=asyncio.FIRST_COMPLETED)
            for duty in duties:
                if duty.done():
                    duty.result()
            await self._ended()
        except asyncio.CancelledError:
            await self._hand_back()
            raise
        finally:
            for task in (*self._tasks, *duties, enough):
                task.cancel()
            await asyncio.gather(*self._tasks, *duties, enough, return_exceptions=True)

    async def _beat(self) -> None:
        while not self._beats.joined.is_set():
            try:
                await self.join()
            except (Unavailable, TooMany) as away:
                log.warning("not joined yet", reason=away.detail)
                await asyncio.sleep(AGAIN_S)
        await self._beats.run(self._obey_all)

    async def _when_joined(self, duty: Callable[[], Awaitable[None]]) -> None:
        await self._beats.joined.wait()
        await duty()

    async def _keep_leases(self) -> None:
        keeper = LeaseKeeper(self._client, self.epochs, self.fenced)
        await every(self._beats.renew_every_s, keeper.step, name="leases")

    async def _work_beside(self) -> None:
        await self._beside.run()
        await self._enough.wait()

    async def _ended(self) -> None:
        """Come back when nothing runs any more, and the fleet has heard of it."""
        self._beside.rest()
        await self._quiet.wait()
        await self._beside.quiet()
        if self._beats.joined.is_set():
            await self._courier.empty()

    def drain(self) -> None:
        """Take nothing new; end when what runs is done. Asked again: hand everything back now."""
        if self._draining:
            self._beside.stop()
            for one in self._running.values():
                one.stop.ask(Why.DRAINED, "the factory is stopping")
        self._begin_to_end()

    def _begin_to_end(self) -> None:
        self._draining = True
        self._beside.rest()
        self._enough.set()
        # Nothing should be offered here any more, least of all what is handed back.
        self._beats.soon()

    async def _hand_back(self) -> None:
        """Save what runs, and give it back, as far as that can be done in a moment."""
        self.drain()
        self.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HAND_BACK_S):
                await self._ended()

    def fenced(self, job_id: str, epoch: int) -> None:
        """Stop a run whose lease is another's by now."""
        for one in self._runs_of(job_id):
            if one.assignment.epoch == epoch:
                one.stop.ask(Why.FENCED, "the lease was taken away")

    def _runs_of(self, job_id: str) -> list[RunningJob]:
        return [one for one in self._running.values() if one.assignment.job_id == job_id]

    def has_room(self, engine: str | None) -> bool:
        """Whether a run with this engine (None: with any) could start now."""
        return not (self._draining or self.spent) and self._room.fleet_may(engine)

    @property
    def spent(self) -> bool:
        """Whether it has begun with as many jobs as it should, whoever they were for."""
        return self._ends.jobs_max is not None and self._begun >= self._ends.jobs_max

    @property
    def _begun(self) -> int:
        return self._taken + self._beside.taken

    def stir(self) -> None:
        """Something has begun or ended here: the coordinator hears of the room that is left."""
        self._beats.soon()
        self._source.room.set()
        if self.spent and not self._running:
            self._enough.set()

    async def _take(self, works: AsyncIterator[Work]) -> None:
        async for work in works:
            if isinstance(work, Command):
                self._obey(work)
            else:
                self._begin(work)

    def _obey_all(self, commands: Sequence[Command]) -> None:
        if not any(command.type == "ask" for command in commands):
            self._source.to_ask.clear()
        for command in commands:
            self._obey(command)

    def _obey(self, command: Command) -> None:
        if command.type == "drain":
            self._begin_to_end()
        elif command.type == "ask":
            self._source.to_ask.set()
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
        if self._room.crowded_out(assignment.engine):
            reason = "there is no room any more: local work was quicker"
            told = {"stage": "queued", "result": "released", "reason": reason}
            self._courier.send(grant.job.id, grant.lease_epoch, told, last=True)
            return
        self._taken += 1
        self._room.begun(Side.FLEET, assignment.engine)
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
            self._beside.note(assignment.engine, outcome)
        finally:
            del self._running[assignment.run_id]
            mine.told.set()
            mine.ended.set()
            if not self._running:
                self._quiet.set()
            self.stir()

    async def _watch_idleness(self) -> None:
        if self._ends.idle_s is None:
            await asyncio.Event().wait()
            return
        while True:
            await self._quiet.wait()
            await self._beside.quiet()
            begun = self._begun
            await asyncio.sleep(self._ends.idle_s)
            if begun == self._begun and not self._running:
                self._enough.set()
                return
