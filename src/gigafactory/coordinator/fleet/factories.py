"""Enrolled factories: heartbeats, commands, draining and last-seen times."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import structlog
from msgspec.structs import replace

from gigafactory.coordinator.core.audit import audit_event
from gigafactory.coordinator.core.committer import Committer, Plan
from gigafactory.coordinator.core.ports import Clock, JobQuery, Store, all_records
from gigafactory.coordinator.index.index import Index
from gigafactory.coordinator.index.past_capabilities import departure_data
from gigafactory.coordinator.runs.fencing import WorkerWrites
from gigafactory.domain.errors import TwinFactory
from gigafactory.domain.fleet.factory import (
    Factory,
    Pressure,
    Vitals,
    merge_heartbeat,
    require_only_instance,
)
from gigafactory.domain.fleet.factory_access import (
    is_visible,
    require_control,
    require_visible,
    visible_part,
)
from gigafactory.domain.job import event_types
from gigafactory.domain.job import lease as leases
from gigafactory.domain.job.change import FactoriesSeen, JobChange, RecordChange, Write
from gigafactory.domain.job.job import Job, Result
from gigafactory.domain.job.lifecycle import combine
from gigafactory.domain.manifest.repo import repo_name
from gigafactory.domain.tenancy.access import Caller
from gigafactory.wire.fleet import Command

TWIN_SHOWN_FOR = timedelta(minutes=5)

log = structlog.get_logger()


class Factories:
    """Actions on enrolled factories."""

    def __init__(
        self, store: Store, committer: Committer, clock: Clock, index: Index, workers: WorkerWrites
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._index = index
        self._workers = workers
        self._twins: dict[str, tuple[datetime, datetime, str]] = {}
        """By factory: when a second process was last and first refused, and why."""
        self._copied: dict[str, datetime] = {}
        """By factory: when a process was refused that was replaced at the same place and goes on.

        That is a copy of the machine, because a lock keeps two processes out of one folder.
        """

    async def heartbeat(
        self, caller: Caller, report: Factory, pressure: Pressure, running: Collection[str]
    ) -> Sequence[Command]:
        """Record a heartbeat, and return the commands for the factory.

        Raises Forbidden for the factory of another token, NotFound, TwinFactory.
        """
        stored = await self._workers.find_factory(caller, report.id)
        now = self._clock.now()
        try:
            self._require_only_instance(stored, report, now)
        except TwinFactory as twin:
            since, _ = self.twin(report.id) or (now, "")
            self._twins[report.id] = (now, since, twin.detail)
            if report.place == stored.place:
                self._copied[report.id] = now
            log.warning("heartbeat of a twin refused", factory=report.id, reason=twin.detail)
            raise
        self._index.record_heartbeat(
            report.id,
            Vitals(
                last_seen=now,
                pressure=pressure,
                faults=self._index.fault_rates.rate(report.id, now),
            ),
        )
        self._workers.unsaved_last_seen[report.id] = now
        restarted = stored.instance_id != report.instance_id
        if merge_heartbeat(stored, report) != stored:
            await self._save_announcement(caller, report)
        # Include what this factory was just granted or has just returned.
        await self._index.catch_up()
        for job_id in self._index.assignments.leased_jobs(report.id):
            await self._reconcile(caller, job_id, report, running, restarted=restarted)
        await self._index.catch_up()
        return self.commands(report.id)

    def _require_only_instance(self, stored: Factory, report: Factory, now: datetime) -> None:
        vitals = self._index.vitals.get(report.id)
        copied = report.id in self._copied and now - self._copied[report.id] < TWIN_SHOWN_FOR
        require_only_instance(
            stored, report.instance_id, report.place, vitals=vitals, now=now, copied=copied
        )

    def twin(self, factory_id: str) -> tuple[datetime, str] | None:
        """Return since when a second process is refused, and why; None if none was lately."""
        last, since, why = self._twins.get(factory_id, (None, None, ""))
        if last is None or since is None or self._clock.now() - last >= TWIN_SHOWN_FOR:
            return None
        return since, why

    async def _save_announcement(self, caller: Caller, report: Factory) -> None:
        async def decide() -> Plan[None]:
            stored = await self._store.record(Factory, report.id)
            if stored is None:
                return Plan(None)
            # Another coordinator may have replaced this instance meanwhile.
            require_only_instance(
                stored, report.instance_id, None, vitals=None, now=self._clock.now()
            )
            if (after := merge_heartbeat(stored, report)) == stored:
                return Plan(None)
            event = audit_event(
                event_types.FACTORY_CHANGED,
                caller.actor,
                self._clock.now(),
                departure_data(stored, after),
                stored.products,
            )
            return Plan(None, (RecordChange(before=stored, after=after, events=(event,)),))

        anonymous = replace(caller, request_key=None)
        await self._committer.execute(anonymous, "announce", decide, type(None))
        await self._index.refresh(Factory, report.id)

    async def _reconcile(
        self,
        caller: Caller,
        job_id: str,
        report: Factory,
        running: Collection[str],
        *,
        restarted: bool,
    ) -> None:
        """Apply a heartbeat to one lease: stopped on command, resumed, or lost in a restart."""

        async def decide() -> Plan[None]:
            job = await self._store.job(job_id)
            return Plan(None, await self._reconcile_writes(job, report, running) if job else ())

        if restarted or job_id not in running:
            await self._committer.execute(
                replace(caller, request_key=None), "reconcile", decide, type(None)
            )

    async def _reconcile_writes(
        self, job: Job, report: Factory, running: Collection[str]
    ) -> tuple[Write, ...]:
        now, actor = self._clock.now(), f"factory:{report.id}"
        released: JobChange | None = None
        for ending in job.ending if job.id not in running else ():
            if ending.factory_id == report.id:
                change = leases.release_revoked(job, ending.epoch, now=now, actor=actor)
                released, job = combine(released, change), change.after
        kept = () if released is None else (released,)
        lease = job.lease
        if (
            lease is None
            or lease.factory_id != report.id
            or lease.instance_id == report.instance_id
            or not await self._is_current(report)
        ):
            return kept
        if job.id in running:
            return (leases.resume_lease(job, report.instance_id, now=now),)
        change = leases.expire(
            job,
            now=now,
            actor=actor,
            restarted=True,
            live_instances=self._workers.live_instances(now),
        )
        ended = await self._workers.end_run_writes(lease, Result.LOST, change.after.reason)
        return (combine(released, change), *ended)

    async def _is_current(self, report: Factory) -> bool:
        """Return whether no newer process has replaced the one that sent a slow heartbeat."""
        # Read after the job: a newer process announces itself before it is granted anything.
        stored = await self._store.record(Factory, report.id)
        return stored is None or stored.instance_id == report.instance_id

    def commands(self, factory_id: str) -> Sequence[Command]:
        """Return the commands that follow from the current state."""
        commands = [
            Command(kind, job_id) for job_id, kind in self._index.assignments.commands(factory_id)
        ]
        factory = self._index.factories.get(factory_id)
        if factory is None:
            return commands
        if factory.draining:
            commands.append(Command("drain"))
        elif self._index.dispatch_modes.must_poll(factory.products):
            commands.append(Command("ask"))
        return commands

    async def drain(self, caller: Caller, factory_id: str, *, draining: bool = True) -> Factory:
        """Start or end draining: a draining factory gets no new jobs.

        Raises Forbidden, NotFound.
        """

        async def decide() -> Plan[Factory]:
            stored = await self._store.record(Factory, factory_id)
            factory = require_control(caller, "drain", factory_id, stored)
            if factory.draining == draining:
                return Plan(factory)
            after = replace(factory, draining=draining, rev=factory.rev + 1)
            kind = event_types.FACTORY_DRAINING if draining else event_types.FACTORY_RESUMED
            event = audit_event(
                kind, caller.actor, self._clock.now(), {"factoryId": factory_id}, factory.products
            )
            return Plan(after, (RecordChange(before=factory, after=after, events=(event,)),))

        request = (factory_id, draining)
        return await self._committer.execute(caller, "drain", decide, Factory, request=request)

    async def get(self, caller: Caller, factory_id: str) -> Factory:
        """Return one factory.

        Raises NotFound.
        """
        return require_visible(caller, factory_id, await self._store.record(Factory, factory_id))

    async def all(self, caller: Caller) -> Sequence[Factory]:
        """Return every factory that the caller may see, by id."""
        return [f for f in await all_records(self._store, Factory) if is_visible(caller, f)]

    def visible_part(self, caller: Caller, factory: Factory) -> Factory:
        """Return a factory as it is shown to a caller, without the names of other products."""
        fleet = self._index.fleet
        products = (fleet.product(each) for each in fleet.product_ids if caller.can_see(each))
        owned = {repo_name(repo) for product in products for repo in product.repos}
        return visible_part(caller, factory, owned)

    def vitals(self, factory_id: str) -> Vitals | None:
        """Return the last heartbeat data of a factory; None if it was never seen."""
        return self._index.vitals.get(factory_id)

    async def leased_jobs(self, caller: Caller, factory_id: str) -> Sequence[Job]:
        """Return the jobs leased by a factory."""
        await self.get(caller, factory_id)
        return await self._store.find_jobs(JobQuery(factory_id=factory_id, limit=500))

    async def save_last_seen(self) -> None:
        """Store the last-seen times of this coordinator, and load those of the others."""
        unsaved, self._workers.unsaved_last_seen = self._workers.unsaved_last_seen, {}
        if unsaved:
            await self._store.commit(FactoriesSeen(unsaved))
        for factory_id, at in (await self._store.last_seen()).items():
            self._index.record_sign_of_life(factory_id, at)

    async def set_streaming(
        self, caller: Caller, factory_id: str, coordinator_id: str, *, ended: bool = False
    ) -> None:
        """Record that a factory's offer stream is open at a coordinator, or has ended there."""
        here = None if ended else coordinator_id

        async def decide() -> Plan[None]:
            factory = await self._store.record(Factory, factory_id)
            if factory is None or factory.streaming == here:
                return Plan(None)
            # The factory may have opened another stream elsewhere meanwhile.
            if ended and factory.streaming != coordinator_id:
                return Plan(None)
            after = replace(factory, streaming=here, rev=factory.rev + 1)
            event = audit_event(
                event_types.FACTORY_STREAM,
                caller.actor,
                self._clock.now(),
                {"factoryId": factory_id},
                factory.products,
            )
            return Plan(None, (RecordChange(before=factory, after=after, events=(event,)),))

        # The end of a stream is recorded even if its token is no longer valid.
        anonymous = replace(caller, request_key=None, token=None)
        await self._committer.execute(anonymous, "streaming", decide, type(None))
        await self._index.refresh(Factory, factory_id)
