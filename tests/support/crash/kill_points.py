"""A launcher for tests: the real `aq`, whose process is killed at one line of its own history.

    python -m tests.support.crash.kill_points --at asked:grant:3 -- serve --port 0 --data …

dies when the third grant was decided and noted, before its commit; with `answered` after the
commit and before anybody was told; with `asked:grant:3:STOP` it only stops there. With `--ahead 60`
the machine's clock is a minute fast. A factory has dooms of its own, see `doomed_phases`.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from gigafactory.cli.main import main as aq
from gigafactory.coordinator.core.history import HistoryFile
from gigafactory.system.clock import SystemClock
from gigafactory.wiring import coordinator as wiring
from tests.support.crash import factory_kill_points as doomed_phases


class Doom(NamedTuple):
    """Which line is the last: the n-th `asked`, or accepted `answered`, of one verb."""

    kind: str
    verb: str
    number: int
    by: signal.Signals

    @classmethod
    def read(cls, written: str) -> "Doom":
        """The doom written as `asked:grant:3`, or with a signal of its own."""
        kind, verb, number, *how = written.split(":")
        if kind not in {"asked", "answered"}:
            raise ValueError(f"found {kind!r}; expected asked or answered")
        return cls(kind, verb, int(number), signal.Signals[f"SIG{how[0] if how else 'KILL'}"])


class DoomedHistory(HistoryFile):
    """Ends the process at its doom; the line itself is written."""

    def __init__(self, file: BinaryIO, coordinator_id: str, doom: Doom) -> None:
        super().__init__(file, coordinator_id)
        self._doom = doom
        self._left = doom.number
        self._verbs: dict[int, str] = {}

    def record_request(self, **fields: Any) -> int:  # noqa: ANN401 - plain JSON values
        number = super().record_request(**fields)
        self._verbs[number] = fields["what"]
        self._count("asked", fields["what"])
        return number

    def record_response(self, number: int, **fields: Any) -> None:  # noqa: ANN401 - plain JSON values
        super().record_response(number, **fields)
        verb = self._verbs.pop(number)
        if fields["accepted"]:
            self._count("answered", verb)

    def _count(self, kind: str, verb: str) -> None:
        if (kind, verb) != (self._doom.kind, self._doom.verb):
            return
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), self._doom.by)


class FastClock(SystemClock):
    """The machine's time, and some more."""

    def __init__(self, ahead: timedelta) -> None:
        super().__init__()
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead


def _doomed_file(doom: Doom) -> Callable[..., object]:
    @contextmanager
    def opened(path: Path, coordinator_id: str) -> Iterator[HistoryFile]:
        with path.open("ab", buffering=0) as file:
            yield DoomedHistory(file, coordinator_id, doom)

    return opened


def run(typed: Sequence[str], *, at: str | None = None, ahead: float = 0.0) -> int:
    """Run `aq` with what was typed, in this process, until its end or its doom."""
    # Only the wiring picks adapters, so this is the one place where others can be put.
    if at is not None and at.partition(":")[0] in doomed_phases.MOMENTS:
        doomed_phases.install(at)
    elif at is not None:
        vars(wiring)["history_file"] = _doomed_file(Doom.read(at))
    if ahead:
        vars(wiring)["SystemClock"] = lambda: FastClock(timedelta(seconds=ahead))
    sys.argv = ["aq", *typed]
    return aq()


def main() -> int:
    """Read the launcher's own options, and run the rest."""
    options = argparse.ArgumentParser(prog="doomed")
    options.add_argument("--at", metavar="KIND:VERB:NUMBER[:SIGNAL]")
    options.add_argument("--ahead", type=float, default=0.0, metavar="SECONDS")
    options.add_argument("typed", nargs="+")
    given = options.parse_args()
    return run(given.typed, at=given.at, ahead=given.ahead)


if __name__ == "__main__":
    sys.exit(main())
