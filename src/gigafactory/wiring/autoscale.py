"""The autoscaler, put together from the settings: shapes, and who provides their machines."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from gigafactory.autoscale.command_provider import CommandProvider
from gigafactory.autoscale.provider import CannotProvide, Provider, ScalingTarget
from gigafactory.autoscale.scaler import Scaler, ScalingNotice
from gigafactory.client.transport.async_client import AsyncClient
from gigafactory.config.settings import Config, ShapeSettings
from gigafactory.domain.errors import Conflict, Fault, Invalid
from gigafactory.domain.scaling.scale_target import Shape
from gigafactory.engines.catalogue import load_engines
from gigafactory.factory.agent.membership import default_factory_name
from gigafactory.factory.core.file_lock import FileLock
from gigafactory.factory.machine.detect import DetectedMachine, detect
from gigafactory.system import logging

LOCK = "lock"
ENDS_ALONE_S = 60.0
"""A factory whose autoscaler is gone ends by itself so long after that one would have ended it."""


async def autoscale(
    config: Config,
    client: AsyncClient,
    tell: Callable[[ScalingNotice], None],
    *,
    file: Path | None = None,
    once: bool = False,
    dry_run: bool = False,
) -> int:
    """Scale what the settings name until a signal; how often something went wrong.

    `file` is where the settings of its factories are, too. Raises Refused.
    """
    if not config.autoscale.shapes:
        fault = Fault("autoscale.shapes", "names no shape; there is nothing to start")
        raise Invalid("the configuration", [fault])
    logging.configure(config.log.level, config.log.format)
    folder = config.data / "autoscale"
    scaler = Scaler(client, await _shapes(config, folder, client, file), tell, dry_run=dry_run)
    with _alone(folder, dry_run=dry_run):
        if once:
            await scaler.step()
            await scaler.wait_until_idle()
        else:
            await _until_told(scaler.run(config.autoscale.poll_every))
    return scaler.problems


async def _until_told(running: Coroutine[None, None, None]) -> None:
    """Go on until a signal; factories go on without us."""
    task = asyncio.create_task(running)
    if sys.platform != "win32":
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return


@contextmanager
def _alone(folder: Path, *, dry_run: bool) -> Iterator[None]:
    if dry_run:
        yield
        return
    lock = FileLock.try_acquire(folder / LOCK)
    if lock is None:
        raise Conflict(f"another autoscaler works in {folder}; one is enough for all shapes")
    with lock:
        yield


async def _shapes(
    config: Config, folder: Path, client: AsyncClient, file: Path | None
) -> list[ScalingTarget]:
    told = config.autoscale.shapes
    here = await _found(config) if any(_like_here(one) for one in told.values()) else None
    host = (config.autoscale.name or default_factory_name()).replace(".", "-")[:40]
    made = []
    for name, one in told.items():
        shape = _shape(name, f"{host}.{name}.", one, here if _like_here(one) else None)
        provider = _provider(one, shape, folder, client, file)
        cool_down, start_within = (
            timedelta(seconds=one.cool_down),
            timedelta(seconds=one.start_within),
        )
        made.append(ScalingTarget(shape, cool_down, start_within, provider))
    return made


def _like_here(told: ShapeSettings) -> bool:
    return told.provider == "process" and not (told.capabilities and told.engines)


async def _found(config: Config) -> DetectedMachine:
    """What this machine has, as its factories will find it."""
    settings = config.factory
    seats = settings.seats or None
    return await detect(load_engines(), environ=os.environ, repo_base=settings.repos, seats=seats)


def _shape(name: str, prefix: str, told: ShapeSettings, here: DetectedMachine | None) -> Shape:
    seats: dict[str, int] = dict(told.engines)
    if here is not None and not seats:
        usable = {key: one for key, one in here.engines.items() if one.problem is None}
        seats = {key: one.seats for key, one in usable.items()}
    return Shape(
        name=name,
        factories=prefix,
        capabilities=told.capabilities or (here.capabilities if here is not None else ()),
        engines=seats,
        slots=told.slots,
        products=told.products,
        repos=told.repos or (here.repos if here is not None else ()),
        minimum=told.minimum,
        maximum=told.maximum,
        warm=told.warm,
        backlog=told.backlog,
    )


def _provider(
    told: ShapeSettings, shape: Shape, folder: Path, client: AsyncClient, file: Path | None
) -> Provider:
    if told.provider == "command":
        return CommandProvider(told.command, shape, client, invited_s=told.start_within)
    if sys.platform == "win32":
        raise CannotProvide("processes need POSIX; on Windows, use the provider `command`")
    from gigafactory.autoscale.process_provider import ProcessProvider

    return ProcessProvider(folder, shape, client, options=_options(told, file))


def _options(told: ShapeSettings, file: Path | None) -> Sequence[str]:
    """What each `aq factory run` is told beside its place."""
    options = ["--config", str(file.absolute())] if file is not None else []
    if told.engines:
        options += ["--seats", ",".join(f"{name}={seats}" for name, seats in told.engines.items())]
    if not (told.minimum or told.warm):
        options += ["--idle-exit", f"{told.cool_down + ENDS_ALONE_S:g}s"]
    return options
