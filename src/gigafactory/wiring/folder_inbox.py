"""Build the local inbox of a factory."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from gigafactory.config.data_dir import FILE_NAME
from gigafactory.config.loading import load
from gigafactory.config.settings import FolderSettings
from gigafactory.factory.agent.capacity import MachineCapacity
from gigafactory.factory.executor import Executor
from gigafactory.factory.machine.inventory import Inventory
from gigafactory.factory.run.active_run import Equipment
from gigafactory.folder.inbox import Inbox, SharedCapacity
from gigafactory.folder.queue.board import Board
from gigafactory.folder.queue.machine import LocalMachine
from gigafactory.folder.queue.profiles import FolderProfiles
from gigafactory.folder.queue.store import FolderQueue
from gigafactory.folder.runner import Runner, Wanted
from gigafactory.profiles import shipped
from gigafactory.system.clock import SystemClock
from gigafactory.system.ids import RandomIds


def build_machine(factory_id: str, inventory: Inventory, *, now: datetime) -> LocalMachine:
    """Return this machine with the seats that fleet and folder share."""
    detected = inventory.detected
    seats = {name: engine.seats for name, engine in detected.engines.items()}
    return LocalMachine(factory_id, detected, seats, now=now)


def open_inbox(
    board: Board,
    equipment: Equipment,
    room: MachineCapacity,
    machine: LocalMachine,
    *,
    slots: int,
    notify: Callable[[], None],
    wanted: Wanted,
) -> Inbox:
    """Open a folder queue beside the fleet, creating it if needed; its runs work in the folder.

    Raise Invalid for wrong settings of the folder.
    """
    board.create()
    data_dir = board.data_dir
    data_dir.create()
    own_settings = replace(
        equipment, data_dir=data_dir, mirrors=equipment.mirrors.in_folder(data_dir.mirrors)
    )
    clock = SystemClock()
    runner = Runner(
        FolderQueue(board, clock, RandomIds()),
        Executor(own_settings, slots=slots),
        machine,
        FolderProfiles(board, shipped(), protected=_settings(board).protected_paths),
        wanted=wanted,
        neighbours=SharedCapacity(room, equipment.detected_engines, notify),
    )
    return Inbox(runner, room, machine, clock)


def _settings(board: Board) -> FolderSettings:
    """Return the folder's own settings from its `aq.toml`."""
    file = board.root / FILE_NAME
    return load(os.environ, file=file).config.folder if file.is_file() else FolderSettings()
