"""Running seeds: the same seed gives the same history, event by event."""

import logging
import random
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

from gigafactory.domain.errors import Unavailable
from tests.simulation.checker import check
from tests.simulation.faults import faults_of
from tests.simulation.history import History
from tests.simulation.loop import run_virtual
from tests.simulation.simulation import Simulation


def findings_of(seed: int, scenario: str | None = None) -> list[str]:
    """Return the checker's findings in the history of a seed."""
    return run_seed(seed, scenario)[1]


def run_seed(seed: int, scenario: str | None = None) -> tuple[Simulation, list[str]]:
    """Run a seed and return the finished simulation with the checker's findings."""
    simulation = Simulation(seed, faults_of(seed, scenario))
    with _recording_duty_errors(simulation.history):
        spinning = run_virtual(random.Random(f"loop {seed}"), simulation.run())
    return simulation, [*(f"10: {task}" for task in spinning), *check(simulation)]


@contextmanager
def _recording_duty_errors(history: History) -> Iterator[None]:
    """Record errors that duties log, except refusals: an unavailable store is a simulated fault."""

    def record(_logger: object, _method: str, line: Any) -> Any:  # noqa: ANN401 - as structlog has it
        if line.get("exc_info"):
            error = sys.exc_info()[1]
            if error is not None and not isinstance(error, Unavailable):
                text = traceback.format_exc(limit=-3)
                history.errors.append(f"broken: duty {line.get('duty')}: {text}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[record])
    logger = logging.getLogger("asyncio")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        structlog.configure(**before)
        logger.setLevel(level)
