"""Build the coordinator: open the configured store, blobs, trackers and channels."""

import asyncio
import errno
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import structlog

from gigafactory.config.settings import Config
from gigafactory.coordinator.coordinator import Coordinator, CoordinatorSettings
from gigafactory.coordinator.core.history import history_file
from gigafactory.coordinator.core.ports import Clock, Store, TrackerBinding
from gigafactory.coordinator.core.stored_time import newest_stored_time
from gigafactory.dispatch.local import LocalDispatch
from gigafactory.domain.errors import Fault, Invalid, StoreDiskFull, Unavailable
from gigafactory.profiles import shipped
from gigafactory.system.clock import SystemClock
from gigafactory.system.ids import RandomIds
from gigafactory.system.loops import run_every, run_in_background
from gigafactory.wiring.blobs import open_blobs, url_path
from gigafactory.wiring.notify import build_channels, open_messenger
from gigafactory.wiring.trackers import open_trackers

STORES = "sqlite:///…, postgresql://… or memory:"
EMBEDDED = frozenset({"sqlite", "memory"})
"""Stores that only one coordinator can use."""
DISK_CHECK_S = 5.0

Value = TypeVar("Value")

log = structlog.get_logger()

CLOCK_EVERY_S = 15.0
AGREE_EVERY_S = 1.0
"""How long a coordinator whose machine was suspended can be behind the others."""


@asynccontextmanager
async def open_coordinator(config: Config) -> AsyncIterator[Coordinator]:
    """Yield the configured coordinator with its duties running; wait while the disk is full.

    Raise Unavailable if store or blobs cannot be used, Invalid for an unsupported URL.
    """
    coordinator, stack = await wait_for_disk(lambda: _start(config))
    async with stack:
        yield coordinator


async def wait_for_disk(start: Callable[[], Awaitable[Value]]) -> Value:
    """Return the result of `start`; try again while the disk is full."""
    while True:
        try:
            return await start()
        except StoreDiskFull as full:
            log.warning("cannot start; trying again", reason=full.detail, every_s=DISK_CHECK_S)
        except OSError as fault:
            if fault.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            log.warning("cannot start; trying again", reason=str(fault), every_s=DISK_CHECK_S)
        await asyncio.sleep(DISK_CHECK_S)


async def _start(config: Config) -> tuple[Coordinator, AsyncExitStack]:
    """Start the coordinator; return it with what has to be closed after it."""
    create_data_dir(config.data)
    instance = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    async with AsyncExitStack() as stack:
        store, clock = await stack.enter_async_context(open_store(config.store))
        blobs = await open_blobs(config.blobs)
        history = (
            stack.enter_context(history_file(config.history, instance)) if config.history else None
        )
        trackers = await stack.enter_async_context(open_trackers(config.tracker, os.environ))
        coordinator = Coordinator(
            store,
            LocalDispatch(),
            blobs,
            clock,
            RandomIds(),
            settings=_settings(config, instance, trackers),
            builtin_profiles=shipped(),
            history=history,
        )
        if config.notify.channels:
            messenger = open_messenger(config.notify, os.environ)
            coordinator.notify_through(messenger, build_channels(config.notify))
        await stack.enter_async_context(coordinator.running())
        return coordinator, stack.pop_all()
    raise AssertionError("an exit stack suppresses no error of ours")


def create_data_dir(folder: Path) -> None:
    """Create the data folder, accessible only by its owner; raise Unavailable on failure."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise Unavailable(
            f"cannot create the data folder {folder}: {error.strerror}; choose another with --data"
        ) from None


def _settings(
    config: Config, instance: str, trackers: Mapping[str, TrackerBinding]
) -> CoordinatorSettings:
    return CoordinatorSettings(
        coordinator_id=instance,
        lease_ttl=timedelta(seconds=config.lease.ttl),
        renew_every=timedelta(seconds=config.lease.renew_every),
        heartbeat_every=timedelta(seconds=config.fleet.heartbeat_every),
        fleet_seats=config.fleet.seats,
        preempting_priorities=frozenset(config.fleet.preempt_for),
        artifact_bytes_max=config.limits.artifact_bytes,
        retention=timedelta(days=config.retention.days),
        archive_finished=config.retention.then == "archive",
        exclusive_store=urlsplit(config.store).scheme in EMBEDDED,
        trackers=trackers,
        default_mode=config.dispatch.mode,
        tracker_auto=config.tracker.auto,
        tracker_agent=config.tracker.agent,
        tracker_poll_every=timedelta(seconds=config.tracker.poll_every),
    )


@asynccontextmanager
async def open_store(url: str) -> AsyncIterator[tuple[Store, Clock]]:
    """Yield the store at an address, and the clock that belongs to it.

    Raises Unavailable, Invalid.
    """
    match urlsplit(url).scheme:
        case "sqlite":
            from gigafactory.store.sqlite.store import SqliteStore

            async with SqliteStore.open(url_path(url)) as store:
                yield store, SystemClock(not_before=await newest_stored_time(store))
        case "postgresql" | "postgres":
            async with _postgres(url) as (shared, clock):
                yield shared, clock
        case "memory":
            from gigafactory.store.memory import MemoryStore

            yield MemoryStore(), SystemClock()
        case scheme:
            message = f"found {scheme or url!r}; expected {STORES}"
            raise Invalid("the configuration", [Fault("store", message)])


@asynccontextmanager
async def _postgres(url: str) -> AsyncIterator[tuple[Store, Clock]]:
    try:
        from gigafactory.store.postgres.clock import DatabaseClock
        from gigafactory.store.postgres.store import PostgresStore
    except ModuleNotFoundError as missing:
        if missing.name != "asyncpg":
            raise
        raise Unavailable(
            "a PostgreSQL store needs an extra: pip install 'gigafactory[postgres]'"
        ) from None
    async with PostgresStore.open(url) as store:
        last = await newest_stored_time(store)
        clock = await DatabaseClock.start(store.measure_offset, not_before=last)

        async def agree() -> None:
            with suppress(Unavailable):
                clock.advance_to(await newest_stored_time(store))

        async with (
            run_in_background(run_every(CLOCK_EVERY_S, clock.measure_offset, name="clock")),
            run_in_background(run_every(AGREE_EVERY_S, agree, name="agreed clock")),
        ):
            yield store, clock
