"""A launcher for tests: the real `aq`, whose process is killed at chosen lines of its history.

    python -m tests.support.crash.kill_points --at asked:grant:3 -- serve --port 0 --data …

kills the process when the third grant was decided and recorded, before its commit; `answered`
after the commit and before the response; `asked:grant:3:STOP` stops it instead. Commits are
counted over all processes that wrote to the history. Several points are separated by commas:
the process dies at the first one that it reaches. `--ahead 60` makes the clock a minute fast.
Factories have their own kill points, see `factory_kill_points`.
"""

import argparse
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from gigafactory.cli.main import main as aq
from gigafactory.coordinator.core.history import HistoryFile
from gigafactory.system.clock import SystemClock
from gigafactory.wiring import coordinator as wiring
from tests.support.crash import factory_kill_points

REACHED = ".reached"
"""Suffix of the file next to a history that lists the reached kill points."""


class KillPoint(NamedTuple):
    """The request for, or the response to, the n-th commit of one verb."""

    kind: str
    verb: str
    number: int
    by: signal.Signals
    written: str

    @classmethod
    def read(cls, written: str) -> "KillPoint":
        """Parse `asked:grant:3`, optionally followed by a signal."""
        kind, verb, number, *how = written.split(":")
        if kind not in {"asked", "answered"}:
            raise ValueError(f"found {kind!r}; expected asked or answered")
        by = signal.Signals[f"SIG{how[0] if how else 'KILL'}"]
        return cls(kind, verb, int(number), by, written)


class KillingHistory(HistoryFile):
    """A history that kills its process at a kill point, after writing the line."""

    def __init__(
        self,
        file: BinaryIO,
        coordinator_id: str,
        points: Sequence[KillPoint],
        committed: Counter[str],
        reached: Path,
    ) -> None:
        super().__init__(file, coordinator_id)
        self._points = points
        self._committed = committed
        self._reached = reached
        self._verbs: dict[int, str] = {}

    def record_request(self, **fields: Any) -> int:  # noqa: ANN401 - plain JSON values
        number = super().record_request(**fields)
        verb = self._verbs[number] = fields["what"]
        self._die_at("asked", verb, self._committed[verb] + 1)
        return number

    def record_response(self, number: int, **fields: Any) -> None:  # noqa: ANN401 - plain JSON values
        super().record_response(number, **fields)
        verb = self._verbs.pop(number)
        if fields["accepted"]:
            self._committed[verb] += 1
            self._die_at("answered", verb, self._committed[verb])

    def _die_at(self, kind: str, verb: str, number: int) -> None:
        for point in self._points:
            if point[:3] == (kind, verb, number):
                with self._reached.open("a") as file:
                    file.write(point.written + "\n")
                os.kill(os.getpid(), point.by)


def reached_points(history: Path) -> list[str]:
    """Return the kill points that processes with this history have reached, in order."""
    file = history.with_suffix(REACHED)
    return file.read_text().split() if file.exists() else []


def _committed(history: Path) -> Counter[str]:
    """Count the commits of each verb in the history."""
    verbs: dict[tuple[str, int], str] = {}
    committed: Counter[str] = Counter()
    for line in history.read_bytes().splitlines() if history.exists() else ():
        entry = msgspec.json.decode(line)
        place = entry["by"], entry["n"]
        if entry["kind"] == "asked":
            verbs[place] = entry["what"]
        elif entry["accepted"]:
            committed[verbs[place]] += 1
    return committed


class FastClock(SystemClock):
    """The machine's clock with an offset."""

    def __init__(self, ahead: timedelta) -> None:
        super().__init__()
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead


def _killing_file(points: Sequence[KillPoint]) -> Callable[..., object]:
    @contextmanager
    def opened(path: Path, coordinator_id: str) -> Iterator[HistoryFile]:
        committed, reached = _committed(path), path.with_suffix(REACHED)
        with path.open("ab", buffering=0) as file:
            yield KillingHistory(file, coordinator_id, points, committed, reached)

    return opened


def run(typed: Sequence[str], *, at: str | None = None, ahead: float = 0.0) -> int:
    """Run `aq` with these arguments in this process, until its end or a kill point."""
    # Only the wiring chooses adapters, so they can be replaced here.
    if at is not None and at.partition(":")[0] in factory_kill_points.MOMENTS:
        factory_kill_points.install(at)
    elif at is not None:
        points = [KillPoint.read(written) for written in at.split(",")]
        vars(wiring)["history_file"] = _killing_file(points)
    if ahead:
        vars(wiring)["SystemClock"] = lambda **_: FastClock(timedelta(seconds=ahead))
    sys.argv = ["aq", *typed]
    return aq()


def main() -> int:
    """Parse the launcher's options and run the rest."""
    options = argparse.ArgumentParser(prog="kill_points")
    options.add_argument("--at", metavar="KIND:VERB:NUMBER[:SIGNAL],…")
    options.add_argument("--ahead", type=float, default=0.0, metavar="SECONDS")
    options.add_argument("typed", nargs="+")
    given = options.parse_args()
    return run(given.typed, at=given.at, ahead=given.ahead)


if __name__ == "__main__":
    sys.exit(main())
