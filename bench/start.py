"""How long it takes to be there: the command, the coordinator, the first grant after a kill."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from types import TracebackType

import growth
from fleet import AQ, Served, serving

Row = tuple[str, str, str, str]


class Servers:
    """Several coordinators at once, one for each store address."""

    def __init__(self, stores: tuple[str | None, ...], folder: Path) -> None:
        self._stores = stores
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> list[Served]:
        made = []
        for number, store in enumerate(self._stores):
            data = self._folder / str(number)
            data.mkdir()
            made.append(self._stack.enter_context(serving(store, data=data)))
        if len(made) > 1:
            # They share one database, and so the first one's tokens.
            made = [Served(one.url, made[0].token, one.pid) for one in made]
        return made

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def rows() -> list[Row]:
    """What a person waits for."""
    bare = _seconds([sys.executable, "-c", "pass"])
    shown = _seconds([AQ, "--help"])
    ready, granted = _recovery()
    return [
        (
            "`aq --help`",
            f"{shown * 1e3:.0f} ms",
            f"{shown / bare:.1f} × `python -c pass`",
            "goal ≤ 3 ×",
        ),
        ("coordinator ready, empty store", f"{ready:.2f} s", "", "goal ≤ 1.5 s"),
        (
            "coordinator SIGKILLed with 10,000 queued → first grant",
            f"{granted:.2f} s",
            "",
            "goal ≤ 3 s",
        ),
    ]


def _seconds(command: list[str]) -> float:
    waits = []
    for _ in range(7):
        begun = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        waits.append(time.perf_counter() - begun)
    return median(waits)


def _recovery() -> tuple[float, float]:
    begun = time.perf_counter()
    with serving():
        ready = time.perf_counter() - begun
    with tempfile.TemporaryDirectory() as folder:
        growth.seeded(Path(folder), 10_000, 10)
        with serving(data=Path(folder)) as served:
            os.kill(served.pid, signal.SIGKILL)
            killed = time.perf_counter()
        with serving(data=Path(folder)) as served:
            asyncio.run(growth.claim(served, 1))
            return ready, time.perf_counter() - killed
