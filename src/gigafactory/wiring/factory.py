"""Build the factory agent: detect the machine and assemble the parts."""

import os
import socket
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import structlog

from gigafactory import __version__
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.config.settings import Config, FactorySettings
from gigafactory.domain.errors import Conflict, Unavailable
from gigafactory.domain.fleet.matching import SANDBOX_BROKEN, SANDBOX_PREFIX
from gigafactory.engines.catalogue import load_engines
from gigafactory.engines.prices import merge_prices
from gigafactory.factory.agent.agent import NEVER_EXIT, Agent, ExitCondition
from gigafactory.factory.agent.capacity import MachineCapacity
from gigafactory.factory.agent.heartbeats import Heartbeats
from gigafactory.factory.agent.membership import FleetMembership, load_token
from gigafactory.factory.agent.work_source import DeliveryMode, WorkSource
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.executor import Executor
from gigafactory.factory.gc.gc import GarbageCollector
from gigafactory.factory.gc.gc_loop import running_gc
from gigafactory.factory.gc.job_status import FleetJobStates
from gigafactory.factory.machine import health
from gigafactory.factory.machine.detect import DetectedMachine, detect
from gigafactory.factory.machine.inventory import Inventory, watch_inventory
from gigafactory.factory.process.cgroups import ResourceLimits, open_control_groups
from gigafactory.factory.process.probe import require_posix
from gigafactory.factory.reporting.outbox import Outbox
from gigafactory.factory.reporting.outbox_sender import OutboxSender
from gigafactory.factory.run.active_run import CommandTimeouts, Equipment
from gigafactory.factory.run.crash_recovery import recover_from_crash
from gigafactory.factory.sandbox.probe import find_secrets
from gigafactory.factory.sandbox.sandbox import YOLO_REMEDY, Sandbox, choose_sandbox
from gigafactory.factory.secrets.redaction import secret_values
from gigafactory.folder.queue.board import Board
from gigafactory.folder.queue.machine import LocalMachine
from gigafactory.folder.queue.store import FolderQueue
from gigafactory.system.clock import SystemClock
from gigafactory.system.ids import RandomIds
from gigafactory.system.loops import run_in_background
from gigafactory.wire.fleet import EngineDoc, HeartbeatDoc
from gigafactory.wiring.folder_inbox import build_machine, open_inbox
from gigafactory.wiring.gc import build_folder_gc, build_gc
from gigafactory.wiring.git import build_git

log = structlog.get_logger()


@asynccontextmanager
async def open_agent(
    settings: FactorySettings,
    membership: FleetMembership,
    data_dir: DataDir,
    *,
    environ: Mapping[str, str] = os.environ,
    ends: ExitCondition = NEVER_EXIT,
) -> AsyncIterator[Agent]:
    """Yield the agent of this machine, joined to its fleet; it works while `run` is awaited.

    With a local inbox it can start without the coordinator. Raise Refused if the coordinator
    refuses it or a required sandbox is missing, Conflict if another factory uses the data folder.
    """
    data_dir.create()
    with _single_instance(data_dir):
        async with _open_agent(settings, membership, data_dir, environ, ends) as agent:
            yield agent


@contextmanager
def _single_instance(data_dir: DataDir) -> Iterator[None]:
    lock = FileLock.try_acquire(data_dir.root / "lock")
    if lock is None:
        raise Conflict(
            f"another factory works in {data_dir.root}; stop it first, or give this one its own"
            " data folder (`data`)"
        )
    with lock:
        yield


async def build_equipment(
    settings: FactorySettings,
    data_dir: DataDir,
    *,
    factory_id: str,
    environ: Mapping[str, str],
    secrets: Sequence[str] = (),
    hidden: Sequence[Path] = (),
) -> Equipment:
    """Build what runs on this machine need, for the fleet and for a folder.

    The sandbox hides the folders in `hidden`. Raise Refused without a required sandbox, or on an
    unsupported system.
    """
    require_posix()
    engines = load_engines()
    sandbox = await _choose_sandbox(settings, (data_dir.root.parent, *hidden), environ)
    _warn_of_gaps(settings, sandbox)
    confined = [f"{SANDBOX_PREFIX}{policy}" for policy in sandbox.policies]
    if sandbox.no_yolo:
        confined.append(SANDBOX_BROKEN)

    async def look() -> DetectedMachine:
        detected = await detect(
            engines, environ=environ, repo_base=settings.repos, seats=settings.seats or None
        )
        return detected.with_tokens(*confined)

    git = build_git(settings, data_dir, environ)
    return Equipment(
        data_dir=data_dir,
        engines=engines,
        inventory=Inventory(await look(), look),
        sandbox=sandbox,
        environ=environ,
        allowed_env=settings.env,
        secrets=(*secret_values(environ), *secrets, *git.forges.tokens),
        factory_id=factory_id,
        prices=merge_prices(settings.prices),
        folders=git.folders,
        timeouts=CommandTimeouts(setup_s=settings.setup_timeout, verify_s=settings.verify_timeout),
        checkpoint_every_s=settings.checkpoint_every,
        mirrors=git.mirrors,
        repos=git.repos,
        forges=git.forges,
        cgroups=open_control_groups(_allowance(settings)),
    )


async def check_sandbox(config: Config) -> Sandbox:
    """Return the sandbox that a factory with these settings has here; raise Refused."""
    require_posix()
    return await _choose_sandbox(config.factory, (config.data,), os.environ)


async def _choose_sandbox(
    settings: FactorySettings, hidden: Sequence[Path], environ: Mapping[str, str]
) -> Sandbox:
    return await choose_sandbox(
        settings.sandbox,
        environ=environ,
        allow_hosts=settings.allow_hosts,
        readable=settings.readable,
        hidden=hidden,
        secrets=[file for folder in hidden for file in find_secrets(Path.home(), folder)],
        yolo_unconfined=settings.yolo_without_sandbox,
    )


def _warn_of_gaps(settings: FactorySettings, sandbox: Sandbox) -> None:
    """Say at start which runs are not confined, and why."""
    if settings.sandbox != "none":
        for policy, why in sandbox.missing.items():
            log.warning("no sandbox", policy=policy, reason=why)
    if sandbox.no_yolo:
        log.warning(
            "takes no yolo jobs, and other jobs run with all rights of this user",
            reason=sandbox.no_yolo,
            fix=YOLO_REMEDY,
        )


def _allowance(settings: FactorySettings) -> ResourceLimits:
    memory = settings.run_memory
    return ResourceLimits(
        memory_bytes=None if memory is None else int(memory * health.GIB),
        processes=settings.run_processes,
        cpus=settings.run_cpus,
    )


@asynccontextmanager
async def _open_agent(
    settings: FactorySettings,
    membership: FleetMembership,
    data_dir: DataDir,
    environ: Mapping[str, str],
    ends: ExitCondition,
) -> AsyncIterator[Agent]:
    slots = settings.slots or max(1, health.cpus() // 2)
    board = Board(settings.inbox.absolute()) if settings.inbox is not None else None
    equipment = await build_equipment(
        settings,
        data_dir,
        factory_id=membership.factory_id,
        environ=environ,
        secrets=(membership.token,),
        hidden=(board.data_dir.root,) if board is not None else (),
    )
    await recover_from_crash(data_dir, equipment.mirrors, equipment.repos, equipment.cgroups)
    executor = Executor(equipment, slots=slots)
    room = MachineCapacity(slots, executor.seats)
    clock = SystemClock()
    machine = build_machine(membership.factory_id, equipment.inventory, now=clock.now())
    instance_id = uuid.uuid4().hex
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            AsyncClient(membership.url, membership.token, latest=lambda: load_token(data_dir))
        )
        me = _HeartbeatBuilder(membership, instance_id, settings, equipment, room, machine, clock)
        heartbeats = Heartbeats(client, me.heartbeat)
        room.is_disconnected = lambda: heartbeats.disconnected
        source = WorkSource(
            client,
            membership.factory_id,
            instance_id,
            mode=DeliveryMode(settings.source),
            can_start=lambda engine: agent.can_start(engine),  # noqa: PLW0108 - created below
        )
        sender = OutboxSender(
            Outbox(data_dir.outbox),
            client,
            lambda job, epoch: agent.stop_fenced_run(job, epoch),  # noqa: PLW0108 - the same
            data_dir,
        )
        inbox = None
        if board is not None:
            inbox = open_inbox(
                board,
                equipment,
                room,
                machine,
                slots=slots,
                notify=lambda: agent.on_capacity_change(),  # noqa: PLW0108 - the same
                wanted=lambda _: not agent.job_limit_reached,
            )
        agent = Agent(
            client, executor, sender, source, heartbeats, room, local_work=inbox, exit_when=ends
        )
        me.agent = agent
        await _join(agent, exclusive=inbox is None)

        def changed(detected: DetectedMachine) -> None:
            machine.has(detected)
            heartbeats.send_soon()

        await stack.enter_async_context(
            run_in_background(watch_inventory(equipment.inventory, changed))
        )
        for one in _garbage_collectors(equipment, agent, client, board):
            await stack.enter_async_context(running_gc(one, settings.gc_every))
        yield agent


def _garbage_collectors(
    equipment: Equipment, agent: Agent, client: AsyncClient, board: Board | None
) -> Iterator[GarbageCollector]:
    """Yield the garbage collectors of the factory and its inbox."""
    data_dir, mirrors, repos = equipment.data_dir, equipment.mirrors, equipment.repos
    states = FleetJobStates(client)
    yield build_gc(data_dir, mirrors, repos, states, is_live=lambda job: job in agent.running_jobs)
    if board is not None:
        queue = FolderQueue(board, SystemClock(), RandomIds())
        yield build_folder_gc(queue, mirrors.in_folder(board.data_dir.mirrors), repos)


async def _join(agent: Agent, *, exclusive: bool) -> None:
    """Join the fleet; with a local inbox an unreachable coordinator is no error.

    Raise Refused.
    """
    try:
        await agent.join()
    except Unavailable as away:
        if exclusive:
            raise
        log.warning("coordinator unreachable; starting with the local inbox", reason=away.detail)


class _HeartbeatBuilder:
    """Builds heartbeats from the current state of the machine."""

    def __init__(
        self,
        membership: FleetMembership,
        instance_id: str,
        settings: FactorySettings,
        equipment: Equipment,
        room: MachineCapacity,
        machine: LocalMachine,
        clock: SystemClock,
    ) -> None:
        self._membership = membership
        self._instance_id = instance_id
        self._settings = settings
        self._equipment = equipment
        self._room = room
        self._machine = machine
        self._clock = clock
        self._before: health.MachineHealth | None = None
        folder = equipment.data_dir.root.resolve()
        self._place = f"{socket.gethostname()}:{folder} (inode {folder.stat().st_ino})"[:200]
        self.agent: Agent | None = None

    @property
    def _detected(self) -> DetectedMachine:
        return self._equipment.inventory.detected

    async def heartbeat(self) -> HeartbeatDoc:
        reading = await health.measure(self._equipment.data_dir.root)
        pressure, self._before = health.to_pressure(reading, self._before), reading
        floor = int(self._settings.disk_floor * health.GIB)
        full = health.disk_refusal(reading, floor=floor)
        self._room.closed = full is not None
        slots, seats = self._room.offered_to_fleet(self._detected.engines)
        if full is not None:
            log.warning("takes no new jobs", reason=full)
        return HeartbeatDoc(
            factory_id=self._membership.factory_id,
            instance_id=self._instance_id,
            place=self._place,
            capabilities=tuple(self._detected.capabilities),
            engines={name: self._engine(name, seats[name]) for name in seats},
            slots=0 if self.agent and self.agent.draining else slots,
            running=tuple(self.agent.running_jobs) if self.agent else (),
            repos=tuple(self._detected.repos),
            labels=tuple(self._settings.labels),
            cost_class=self._settings.cost_class,
            os=self._detected.os,
            sandbox=self._equipment.sandbox.minimum,
            load=pressure.load,
            cpu=pressure.cpu,
            memory=pressure.memory,
            disk=pressure.disk,
            version=__version__,
        )

    def _engine(self, name: str, seats: int) -> EngineDoc:
        detected = self._detected.engines[name]
        # A rate limit found by local work applies to fleet jobs too.
        rests = self._machine.state(name, now=self._clock.now())
        if rests is None:
            return EngineDoc(version=detected.version, seats=seats, unavailable=detected.problem)
        return EngineDoc(
            version=detected.version,
            seats=seats,
            unavailable=(rests.unavailable or "")[:500] or None,
            cooling_until=rests.cooling_until,
        )
