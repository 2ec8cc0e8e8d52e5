"""Playing a seed: the same seed gives the same history, to the last event."""

import logging
import random
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from gigafactory.domain.errors import Unavailable
from tests.simulation.checker import judge
from tests.simulation.history import History
from tests.simulation.loop import play
from tests.simulation.weather import weather_of
from tests.simulation.world import World


def findings_of(seed: int, scenario: str | None = None) -> list[str]:
    """What the judge finds wrong with the history of a seed; nothing is as it should be."""
    return lived(seed, scenario)[1]


def lived(seed: int, scenario: str | None = None) -> tuple[World, list[str]]:
    """The world of a seed at its end, and what the judge finds wrong with it."""
    world = World(seed, weather_of(seed, scenario))
    with _listening(world.history):
        spun = play(random.Random(f"loop {seed}"), world.live())
    return world, [*(f"10: {who}" for who in spun), *judge(world)]


@contextmanager
def _listening(history: History) -> Iterator[None]:
    """Hear what duties log when they fail; a refusal is weather, anything else is a finding."""

    def hear(_logger: object, _method: str, line: Any) -> Any:  # noqa: ANN401 - as structlog has it
        if line.get("exc_info"):
            error = sys.exc_info()[1]
            if error is not None and not isinstance(error, Unavailable):
                told = traceback.format_exc(limit=-3)
                history.broken.append(f"broken: duty {line.get('duty')}: {told}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[hear])
    logger = logging.getLogger("asyncio")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        structlog.configure(**before)
        logger.setLevel(level)
