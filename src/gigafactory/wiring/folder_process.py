"""The process of `aq run`, and tickets of a folder."""

import asyncio
import os
import re
import secrets
import signal
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import structlog
from msgspec.structs import replace

from gigafactory.config.projects import with_projects
from gigafactory.config.settings import Config, FactorySettings, FolderSettings
from gigafactory.coordinator.core.ports import TrackerBinding
from gigafactory.coordinator.tracker.ticket_importer import HINT
from gigafactory.coordinator.tracker.ticket_updater import UpdateResult
from gigafactory.domain.errors import Fault, Invalid, NotFound
from gigafactory.domain.job.change import FLEET
from gigafactory.domain.tenancy.product import DEFAULT_PRODUCT
from gigafactory.domain.tracker.ticket import Ticket
from gigafactory.factory.agent.membership import default_factory_name
from gigafactory.factory.executor import Executor
from gigafactory.factory.gc.gc_loop import running_gc
from gigafactory.folder import tickets
from gigafactory.folder.queue.board import Board
from gigafactory.folder.queue.machine import LocalMachine
from gigafactory.folder.queue.profiles import FolderProfiles
from gigafactory.folder.queue.store import FolderQueue
from gigafactory.folder.runner import Runner, Summary, Wanted
from gigafactory.profiles import shipped
from gigafactory.system import logging
from gigafactory.system.clock import SystemClock
from gigafactory.system.ids import RandomIds
from gigafactory.system.loop_watchdog import watch_loop
from gigafactory.wiring.factory import build_equipment
from gigafactory.wiring.gc import build_folder_gc
from gigafactory.wiring.git import build_git
from gigafactory.wiring.trackers import open_trackers

JOBS_MAX = "AGENT_QUEUE_MAX"
JOBS_AT_ONCE = 3
_JOBS = re.compile(r"[1-9][0-9]{0,3}")

log = structlog.get_logger()


def open_queue(folder: Path) -> FolderQueue:
    """Open the queue of a folder, creating it if needed."""
    board = Board(folder.absolute())
    board.create()
    return FolderQueue(board, SystemClock(), RandomIds())


def run_folder(config: Config, folder: Path, *, once: bool, only: str | None = None) -> Summary:
    """Run the jobs of a folder until a signal, or with `once` until they are done.

    It is a person's own queue, so its jobs may use the person's projects folder. `only` is the id
    of a single job to run. Raise Invalid for a wrong AGENT_QUEUE_MAX, Refused without a required
    sandbox.
    """
    logging.configure(config.log.level, config.log.format)
    jobs_max = max_concurrent_jobs(os.environ)
    config = with_projects(config, near=folder)
    return asyncio.run(_work(config, open_queue(folder), jobs_max, once=once, only=only))


def max_concurrent_jobs(environ: Mapping[str, str]) -> int:
    """Return the maximum number of concurrent jobs of a folder; raise Invalid."""
    written = environ.get(JOBS_MAX) or str(JOBS_AT_ONCE)
    if not _JOBS.fullmatch(written):
        fault = Fault(JOBS_MAX, f"found {written!r}; expected a whole number from 1 to 9999")
        raise Invalid("the environment", [fault])
    return int(written)


async def _work(
    config: Config, queue: FolderQueue, jobs_max: int, *, once: bool, only: str | None
) -> Summary:
    settings = config.factory
    runner = await open_runner(
        settings,
        queue,
        jobs_max,
        folder=config.folder,
        hidden=(config.data,),
        wanted=lambda job: only is None or job.id == only,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runner.drain)
    async with AsyncExitStack() as stack:
        if not once:
            git = build_git(settings, queue.board.data_dir, os.environ)
            collector = build_folder_gc(queue, git.mirrors, git.repos)
            await stack.enter_async_context(running_gc(collector, settings.gc_every))
        with watch_loop():
            return await runner.run(once=once)


async def open_runner(
    settings: FactorySettings,
    queue: FolderQueue,
    jobs_max: int = JOBS_AT_ONCE,
    *,
    folder: FolderSettings = FolderSettings(),  # noqa: B008 - frozen
    hidden: Sequence[Path] = (),
    environ: Mapping[str, str] = os.environ,
    wanted: Wanted = lambda _: True,
) -> Runner:
    """Return a runner for a folder; it works while `run` is awaited.

    Its jobs may work in place in the folder itself, besides `factory.roots`. Raise Refused without
    a required sandbox.
    """
    data_dir = queue.board.data_dir
    data_dir.create()
    settings = replace(settings, roots=(*settings.roots, queue.board.root))
    name = settings.id or default_factory_name()
    equipment = await build_equipment(
        settings, data_dir, factory_id=name, environ=environ, hidden=hidden
    )
    machine = LocalMachine(
        name, equipment.inventory.detected, dict(settings.seats), now=queue.clock.now()
    )
    rules = FolderProfiles(queue.board, shipped(), protected=folder.protected_paths)
    return Runner(queue, Executor(equipment, slots=jobs_max), machine, rules, wanted=wanted)


def import_tickets(config: Config, folder: Path, items: Sequence[str]) -> tickets.TicketImport:
    """Import these tickets, or all tickets for agents, into the inbox of a folder."""

    async def read() -> tuple[Sequence[Ticket], str | None]:
        async with open_trackers(config.tracker, os.environ) as places:
            place = _choose_tracker(config, places)
            if not items:
                return await place.tracker.items_for_agents(), place.default_repo
            return [await _item(place, item_id) for item_id in items], place.default_repo

    found_tickets, repo = asyncio.run(read())
    return tickets.put(open_queue(folder), found_tickets, repo=repo)


def update_tickets(config: Config, queue: FolderQueue, jobs: Sequence[str]) -> list[UpdateResult]:
    """Send pending updates to the tickets of these jobs, or of all jobs with a ticket."""
    named = jobs or [k.job.id for k in queue.look().values() if k.job.tracker_item is not None]
    sender = f"{default_factory_name()}-{os.getpid()}-{secrets.token_hex(4)}"

    async def update() -> list[UpdateResult]:
        async with open_trackers(config.tracker, os.environ) as places:
            tracker = _choose_tracker(config, places).tracker
            return [await tickets.echo(queue, tracker, job, me=sender) for job in sorted(named)]

    return asyncio.run(update())


def _choose_tracker(config: Config, places: Mapping[str, TrackerBinding]) -> TrackerBinding:
    """Return the tracker of the chosen product, or the only one."""
    product = config.client.product or DEFAULT_PRODUCT
    only = next(iter(places.values())) if len(places) == 1 else None
    place = places.get(product) or places.get(FLEET) or only
    if place is None:
        raise NotFound("tracker of product", product, HINT)
    return place


async def _item(place: TrackerBinding, item_id: str) -> Ticket:
    ticket = await place.tracker.item(item_id)
    if ticket is None:
        raise NotFound("item", item_id, "check its number in the tracker")
    return ticket
