"""A factory, put together: what it has is found out, and the agent is ready to run."""

import os
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import structlog

from gigafactory import __version__
from gigafactory.client.asynchronous import AsyncClient
from gigafactory.domain.errors import Conflict
from gigafactory.engines.catalogue import engines
from gigafactory.factory import health
from gigafactory.factory.addresses import Allowed
from gigafactory.factory.agent import UNENDING, Agent, Ends
from gigafactory.factory.beats import Heartbeats
from gigafactory.factory.courier import Courier
from gigafactory.factory.detect import Detected, detect
from gigafactory.factory.executor import Executor
from gigafactory.factory.filelock import FileLock
from gigafactory.factory.forges.hosts import Access, Forges
from gigafactory.factory.git import Git
from gigafactory.factory.leavings import clear_up
from gigafactory.factory.membership import Membership
from gigafactory.factory.mirror import Mirrors
from gigafactory.factory.outbox import Outbox
from gigafactory.factory.places import Places
from gigafactory.factory.redaction import secret_values
from gigafactory.factory.repos import Repos
from gigafactory.factory.run import Equipment
from gigafactory.factory.sandbox import choose
from gigafactory.factory.sources import Mode, WorkSource
from gigafactory.settings import Factory as Settings

log = structlog.get_logger()


@asynccontextmanager
async def open_agent(
    settings: Settings,
    membership: Membership,
    places: Places,
    *,
    environ: Mapping[str, str] = os.environ,
    ends: Ends = UNENDING,
) -> AsyncIterator[Agent]:
    """The agent of this machine, joined to its fleet; it works while `run` is awaited.

    Raises Refused when the coordinator does not take it, or without a sandbox that the settings
    demand, and Conflict when a factory works in these places already.
    """
    places.create()
    with _alone(places):
        async with _opened(settings, membership, places, environ, ends) as agent:
            yield agent


@contextmanager
def _alone(places: Places) -> Iterator[None]:
    lock = FileLock.take(places.root / "lock")
    if lock is None:
        raise Conflict(
            f"another factory works in {places.root}; stop it first, or give this one a data folder"
            " of its own (`data`)"
        )
    with lock:
        yield


async def equip(
    settings: Settings,
    places: Places,
    *,
    factory_id: str,
    environ: Mapping[str, str],
    secrets: Sequence[str] = (),
) -> tuple[Equipment, Detected]:
    """What runs on this machine use, and what was found here; for the fleet and a folder alike.

    Raises Refused without a sandbox that the settings demand.
    """
    known = engines()
    sandbox = await choose(settings.sandbox, hidden=(places.root,))
    detected = await detect(
        known, environ=environ, repo_base=settings.repos, seats=settings.seats or None
    )
    folders = (settings.repos, *settings.roots, Path.home())
    roots = tuple(str(root) for root in folders if root is not None)
    forges = Forges(
        {host: Access(at.token_env, at.api) for host, at in settings.forges.items()}, environ
    )
    git = Git(local=True, credentials=forges.git_credentials, environ=environ)
    equipment = Equipment(
        places=places,
        engines=known,
        found=detected.engines,
        sandbox=sandbox,
        environ=environ,
        passes=settings.env,
        secrets=(*secret_values(environ), *secrets, *forges.tokens),
        factory_id=factory_id,
        roots=settings.roots,
        mirrors=Mirrors(places.mirrors, git),
        repos=Repos(
            settings.repos, settings.addresses, settings.allow_repo, Allowed(folders=roots)
        ),
        forges=forges,
    )
    return equipment, detected


@asynccontextmanager
async def _opened(
    settings: Settings,
    membership: Membership,
    places: Places,
    environ: Mapping[str, str],
    ends: Ends,
) -> AsyncIterator[Agent]:
    slots = settings.slots or max(1, health.cpus() // 2)
    equipment, detected = await equip(
        settings,
        places,
        factory_id=membership.factory_id,
        environ=environ,
        secrets=(membership.token,),
    )
    await clear_up(places, equipment.mirrors, equipment.repos)
    executor = Executor(equipment, slots=slots)
    instance_id = uuid.uuid4().hex
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(AsyncClient(membership.url, membership.token))
        me = _Described(membership, instance_id, settings, detected, slots, places)
        beats = Heartbeats(client, me.heartbeat)
        source = WorkSource(
            client,
            membership.factory_id,
            instance_id,
            mode=Mode(settings.source),
            has_room=lambda engine: agent.has_room(engine),  # noqa: PLW0108 - it is made below
        )
        courier = Courier(
            Outbox(places.outbox),
            client,
            lambda job, epoch: agent.fenced(job, epoch),  # noqa: PLW0108 - the same
            places.quarantined,
        )
        agent = Agent(client, executor, courier, source, beats, ends=ends)
        me.agent = agent
        # A new instance that runs nothing has lost its jobs: what ended before is told first.
        await courier.replay()
        await beats.first()
        yield agent


class _Described:
    """What a heartbeat says, from how things are at that moment."""

    def __init__(
        self,
        membership: Membership,
        instance_id: str,
        settings: Settings,
        detected: Detected,
        slots: int,
        places: Places,
    ) -> None:
        self._membership = membership
        self._instance_id = instance_id
        self._settings = settings
        self._detected = detected
        self._slots = slots
        self._places = places
        self._before: health.Reading | None = None
        self.agent: Agent | None = None

    async def heartbeat(self) -> dict[str, Any]:
        reading = await health.read(self._places.root)
        pressure, self._before = health.pressure(reading, self._before), reading
        full = health.refusal(reading)
        if full is not None:
            log.warning("takes nothing new", reason=full)
        return {
            "factoryId": self._membership.factory_id,
            "instanceId": self._instance_id,
            "capabilities": list(self._detected.capabilities),
            "engines": {
                name: {
                    "version": found.version,
                    "seats": found.seats,
                    "unavailable": found.problem,
                }
                for name, found in self._detected.engines.items()
            },
            "slots": 0 if full or (self.agent and self.agent.draining) else self._slots,
            "running": list(self.agent.running) if self.agent else [],
            "repos": list(self._detected.repos),
            "labels": list(self._settings.labels),
            "os": self._detected.os,
            "load": pressure.load,
            "cpu": pressure.cpu,
            "memory": pressure.memory,
            "disk": pressure.disk,
            "version": __version__,
        }
