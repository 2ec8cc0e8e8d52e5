"""`aq run` as a process: a folder, this machine and a runner that ends on its signals."""

import asyncio
import os
import re
import secrets
import signal
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import structlog

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
from gigafactory.factory.gc.gc_loop import kept_in_order
from gigafactory.folder import tickets
from gigafactory.folder.queue.board import Board
from gigafactory.folder.queue.machine import Machine
from gigafactory.folder.queue.profiles import Rules
from gigafactory.folder.queue.store import Queue
from gigafactory.folder.runner import Runner, Summary, Wanted
from gigafactory.profiles import shipped
from gigafactory.system import logging
from gigafactory.system.clock import SystemClock
from gigafactory.system.ids import RandomIds
from gigafactory.wiring.factory import equip
from gigafactory.wiring.gc import house_of_folder
from gigafactory.wiring.git import git_of
from gigafactory.wiring.trackers import open_trackers

JOBS_MAX = "AGENT_QUEUE_MAX"
JOBS_AT_ONCE = 3

log = structlog.get_logger()


def open_queue(folder: Path) -> Queue:
    """The queue of a folder, which is made one if it is none."""
    board = Board(folder.absolute())
    board.create()
    return Queue(board, SystemClock(), RandomIds())


def run_folder(config: Config, folder: Path, *, once: bool, only: str | None = None) -> Summary:
    """Work on a folder until told to stop, or with `once` until its jobs are done.

    `only` is the id of the one job to work on. Raises Invalid for a wrong AGENT_QUEUE_MAX, and
    Refused without a sandbox that the settings demand.
    """
    logging.configure(config.log.level, config.log.format)
    jobs_max = at_once(os.environ)
    return asyncio.run(_work(config, open_queue(folder), jobs_max, once=once, only=only))


def at_once(environ: Mapping[str, str]) -> int:
    """How many jobs of a folder may run at the same time.

    Raises Invalid.
    """
    written = environ.get(JOBS_MAX) or str(JOBS_AT_ONCE)
    if not re.fullmatch(r"[1-9][0-9]{0,3}", written):
        fault = Fault(JOBS_MAX, f"found {written!r}; expected a whole number from 1 to 9999")
        raise Invalid("the environment", [fault])
    return int(written)


async def _work(
    config: Config, queue: Queue, jobs_max: int, *, once: bool, only: str | None
) -> Summary:
    settings = config.factory
    runner = await open_runner(
        settings,
        queue,
        jobs_max,
        folder=config.folder,
        wanted=lambda job: only is None or job.id == only,
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runner.drain)
    async with AsyncExitStack() as stack:
        if not once:
            git = git_of(settings, queue.board.data_dir, os.environ)
            house = house_of_folder(queue, git.mirrors, git.repos)
            await stack.enter_async_context(kept_in_order(house, settings.gc_every))
        return await runner.run(once=once)


async def open_runner(
    settings: FactorySettings,
    queue: Queue,
    jobs_max: int = JOBS_AT_ONCE,
    *,
    folder: FolderSettings = FolderSettings(),  # noqa: B008 - frozen
    environ: Mapping[str, str] = os.environ,
    wanted: Wanted = lambda _: True,
) -> Runner:
    """A runner for a folder, put together; it works while `run` is awaited.

    Raises Refused without a sandbox that the settings demand.
    """
    data_dir = queue.board.data_dir
    data_dir.create()
    name = settings.id or default_factory_name()
    equipment = await equip(settings, data_dir, factory_id=name, environ=environ)
    machine = Machine(
        name, equipment.inventory.detected, dict(settings.seats), now=queue.clock.now()
    )
    rules = Rules(queue.board, shipped(), protected=folder.protected_paths)
    return Runner(queue, Executor(equipment, slots=jobs_max), machine, rules, wanted=wanted)


def take_tickets(config: Config, folder: Path, items: Sequence[str]) -> tickets.TakenIn:
    """Put these tickets, or all that were handed over, into the inbox of a folder.

    Raises NotFound, TrackerUnavailable, TrackerRefused.
    """

    async def read() -> tuple[Sequence[Ticket], str | None]:
        async with open_trackers(config.tracker, os.environ) as places:
            place = _place(config, places)
            if not items:
                return await place.tracker.items_for_agents(), place.default_repo
            return [await _item(place, item_id) for item_id in items], place.default_repo

    found, repo = asyncio.run(read())
    return tickets.put(open_queue(folder), found, repo=repo)


def tell_tickets(config: Config, queue: Queue, jobs: Sequence[str]) -> list[UpdateResult]:
    """Tell the tickets of these jobs, or of all that have one, what they have not been told yet.

    Raises NotFound, Invalid, TrackerUnavailable.
    """
    named = jobs or [k.job.id for k in queue.look().values() if k.job.tracker_item is not None]
    me = f"{default_factory_name()}-{os.getpid()}-{secrets.token_hex(4)}"

    async def tell() -> list[UpdateResult]:
        async with open_trackers(config.tracker, os.environ) as places:
            tracker = _place(config, places).tracker
            return [await tickets.echo(queue, tracker, job, me=me) for job in sorted(named)]

    return asyncio.run(tell())


def _place(config: Config, places: Mapping[str, TrackerBinding]) -> TrackerBinding:
    """The tracker of the chosen product; else the only one that there is."""
    product = config.client.product or DEFAULT_PRODUCT
    only = next(iter(places.values())) if len(places) == 1 else None
    place = places.get(product) or places.get(FLEET) or only
    if place is None:
        raise NotFound("tracker of product", product, HINT)
    return place


async def _item(place: TrackerBinding, item_id: str) -> Ticket:
    found = await place.tracker.item(item_id)
    if found is None:
        raise NotFound("item", item_id, "look at its number in the tracker")
    return found
