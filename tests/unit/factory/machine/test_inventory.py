"""The inventory of a machine is refreshed while the factory runs."""

import asyncio

from gigafactory.factory.machine.detect import DetectedMachine
from gigafactory.factory.machine.engines import DetectedEngine
from gigafactory.factory.machine.inventory import Inventory, watch_inventory
from gigafactory.system.loops import run_in_background

BARE = DetectedMachine(os="linux", capabilities=("os:linux",), repos=(), engines={})
EQUIPPED = DetectedMachine(
    os="linux",
    capabilities=("os:linux", "node:20"),
    repos=(),
    engines={"claude": DetectedEngine(program="/usr/bin/claude", version="2.0")},
)


async def test_engine_installed_later_is_reported_once() -> None:
    finds = iter([BARE, EQUIPPED])

    async def look() -> DetectedMachine:
        return next(finds, EQUIPPED)

    result: asyncio.Queue[DetectedMachine] = asyncio.Queue()
    inventory = Inventory(BARE, look)
    async with run_in_background(watch_inventory(inventory, result.put_nowait, every_s=0.001)):
        assert await result.get() == EQUIPPED
    assert inventory.detected == EQUIPPED
    assert result.empty(), "what stays as it is is told once"
