"""Build the autoscaler: shapes and their providers."""

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
ORPHAN_EXIT_S = 60.0
"""Extra idle time after which a factory exits if its autoscaler is gone."""


async def autoscale(
    config: Config,
    client: AsyncClient,
    notify: Callable[[ScalingNotice], None],
    *,
    file: Path | None = None,
    once: bool = False,
    dry_run: bool = False,
) -> int:
    """Scale the configured shapes until a signal; return the number of problems.

    `file` is the settings file of its factories. Raise Refused.
    """
    if not config.autoscale.shapes:
        fault = Fault("autoscale.shapes", "names no shape, so there is nothing to start")
        raise Invalid("the configuration", [fault])
    logging.configure(config.log.level, config.log.format)
    folder = config.data / "autoscale"
    scaler = Scaler(
        client, await _scaling_targets(config, folder, client, file), notify, dry_run=dry_run
    )
    with _single_instance(folder, dry_run=dry_run):
        if once:
            await scaler.step()
            await scaler.wait_until_idle()
        else:
            await _run_until_signal(scaler.run(config.autoscale.poll_every))
    return scaler.problems


async def _run_until_signal(running: Coroutine[None, None, None]) -> None:
    # Its factories continue without it.
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
def _single_instance(folder: Path, *, dry_run: bool) -> Iterator[None]:
    if dry_run:
        yield
        return
    lock = FileLock.try_acquire(folder / LOCK)
    if lock is None:
        raise Conflict(f"another autoscaler uses {folder}; one handles all shapes")
    with lock:
        yield


async def _scaling_targets(
    config: Config, folder: Path, client: AsyncClient, file: Path | None
) -> list[ScalingTarget]:
    shapes = config.autoscale.shapes
    local = any(_uses_local_machine(one) for one in shapes.values())
    machine = await _detect_machine(config) if local else None
    host = (config.autoscale.name or default_factory_name()).replace(".", "-")[:40]
    targets = []
    for name, one in shapes.items():
        shape = _shape(name, f"{host}.{name}.", one, machine if _uses_local_machine(one) else None)
        provider = _provider(one, shape, folder, client, file)
        cool_down, start_within = (
            timedelta(seconds=one.cool_down),
            timedelta(seconds=one.start_within),
        )
        targets.append(ScalingTarget(shape, cool_down, start_within, provider))
    return targets


def _uses_local_machine(shape: ShapeSettings) -> bool:
    return shape.provider == "process" and not (shape.capabilities and shape.engines)


async def _detect_machine(config: Config) -> DetectedMachine:
    settings = config.factory
    seats = settings.seats or None
    return await detect(load_engines(), environ=os.environ, repo_base=settings.repos, seats=seats)


def _shape(
    name: str, prefix: str, configured: ShapeSettings, machine: DetectedMachine | None
) -> Shape:
    seats: dict[str, int] = dict(configured.engines)
    if machine is not None and not seats:
        usable = {key: one for key, one in machine.engines.items() if one.problem is None}
        seats = {key: one.seats for key, one in usable.items()}
    return Shape(
        name=name,
        factories=prefix,
        capabilities=configured.capabilities
        or (machine.capabilities if machine is not None else ()),
        engines=seats,
        slots=configured.slots,
        products=configured.products,
        repos=configured.repos or (machine.repos if machine is not None else ()),
        minimum=configured.minimum,
        maximum=configured.maximum,
        warm=configured.warm,
        backlog=configured.backlog,
    )


def _provider(
    configured: ShapeSettings, shape: Shape, folder: Path, client: AsyncClient, file: Path | None
) -> Provider:
    if configured.provider == "command":
        return CommandProvider(configured.command, shape, client, invited_s=configured.start_within)
    if sys.platform == "win32":
        raise CannotProvide("processes need POSIX; on Windows, use the provider `command`")
    from gigafactory.autoscale.process_provider import ProcessProvider

    return ProcessProvider(folder, shape, client, options=_options(configured, file))


def _options(configured: ShapeSettings, file: Path | None) -> Sequence[str]:
    """Return the options of each `aq factory run`."""
    options = ["--config", str(file.absolute())] if file is not None else []
    if configured.engines:
        options += [
            "--seats",
            ",".join(f"{name}={seats}" for name, seats in configured.engines.items()),
        ]
    if not (configured.minimum or configured.warm):
        options += ["--idle-exit", f"{configured.cool_down + ORPHAN_EXIT_S:g}s"]
    return options
