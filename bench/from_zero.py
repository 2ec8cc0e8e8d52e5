"""Time until the first job runs when the autoscaler has to start a factory first."""

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fleet import API, AQ, Served, environment, serving
from harness import Harness
from table import Section, verdict
from wire import wire

OVER_S = 3.0
WITHIN_S = 60.0
LOOK_EVERY_S = 0.01
SETTINGS = """\
[factory]
sandbox = "none"
slots = 1
seats = {command = 1}
[autoscale.shapes.here]
capabilities = ["os:linux"]
engines = {command = 1}
cool-down = 0
"""


def sections(harness: Harness) -> list[Section]:
    """Compare the autoscaler with a factory that is started by hand for a queued job."""
    with tempfile.TemporaryDirectory() as made, serving() as served:
        setup = AutoscalerSetup(Path(made), served)
        setup.by_hand()
        with setup.autoscaler():
            setup.from_zero()
        figures = harness.in_turn({"by hand": lambda: (setup.by_hand(),), "zero": setup.scaled})
    [by_hand], [zero] = figures["by hand"], figures["zero"]
    over = zero - by_hand
    row = (
        "job submitted → factory started by the autoscaler → engine running",
        f"{zero:.2f} s",
        f"factory started by hand → engine running {by_hand:.2f} s, {over:.2f} s less",
        verdict(met=over <= OVER_S, goal=f"≤ {OVER_S:.0f} s more than a start by hand"),
    )
    note = "Provider `process`, with cached byte code, as from the second start on."
    return [Section("Scale from zero", [row], note)]


class AutoscalerSetup:
    """A coordinator without factories, and a folder to start factories in."""

    def __init__(self, folder: Path, served: Served) -> None:
        self._folder = folder
        self._served = served
        self._number = 0
        (folder / "aq.toml").write_text(SETTINGS)
        settings = {"AQ_FLEET_API": served.url, "AQ_FLEET_TOKEN": served.token}
        self._environ = environment(folder / "home", settings)

    def by_hand(self) -> float:
        """Return the seconds from the start of an enrolled factory to a queued job's engine."""
        mark = asyncio.run(self._submit())
        data = self._folder / f"disk-{self._number}"
        environ = self._environ | {"AQ_DATA": str(data)}
        secret = self._aq("factory", "invite", environ=environ).strip()
        name = f"by-hand-{self._number}"
        self._aq("factory", "enroll", name, "--secret", secret, environ=environ)
        begun = time.time()
        self._aq("factory", "run", "--once", "--leave", environ=environ)
        return read_mark(mark) - begun

    def scaled(self) -> tuple[float]:
        """Start an autoscaler and return the figure of `from_zero`."""
        with self.autoscaler():
            return (self.from_zero(),)

    def from_zero(self) -> float:
        """Return the seconds from submit to engine start, with no factory before and after."""
        begun = time.time()
        mark = asyncio.run(self._submit())
        until(lambda: read_mark(mark) > 0)
        until(lambda: not json.loads(self._aq("factory", "list", "--json"))["factories"])
        return read_mark(mark) - begun

    @contextmanager
    def autoscaler(self) -> Iterator[None]:
        """Run `aq autoscale`, ready after its first check."""
        with subprocess.Popen(
            [AQ, "autoscale"],
            cwd=self._folder,
            env=self._environ,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline()
                yield
            finally:
                process.terminate()
                process.wait(WITHIN_S)

    async def _submit(self) -> Path:
        self._number += 1
        mark = self._folder / f"mark-{self._number}"
        manifest = {"engine": "command", "name": f"job-{self._number}"}
        asked = {"manifest": manifest, "body": f"date +%s%N > {mark}"}
        async with wire(self._served.url, self._served.token) as people:
            await people.call("POST", f"{API}/jobs", asked)
        return mark

    def _aq(self, *typed: str, environ: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [AQ, *typed],
            cwd=self._folder,
            env=environ or self._environ,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=WITHIN_S,
        )
        return done.stdout


def read_mark(mark: Path) -> float:
    """Return the time that an engine wrote to its mark file; 0 before."""
    return int(mark.read_text().strip() or "0") / 1e9 if mark.exists() else 0.0


def until(look: Callable[[], bool]) -> None:
    """Wait for a condition, with a time limit."""
    ends = time.monotonic() + WITHIN_S
    while not look():
        assert time.monotonic() < ends, f"not reached within {WITHIN_S:.0f} s"
        time.sleep(LOOK_EVERY_S)
