"""How long the first job waits where nobody works: until a new factory runs its engine."""

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fleet import API, AQ, Served, environment, serving
from ground import Ground
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


def sections(ground: Ground) -> list[Section]:
    """From nothing, beside a factory that somebody starts by hand for a job that waits."""
    with tempfile.TemporaryDirectory() as made, serving() as served:
        site = Site(Path(made), served)
        site.by_hand()
        with site.autoscaler():
            site.from_zero()
        figures = ground.in_turn({"by hand": lambda: (site.by_hand(),), "zero": site.scaled})
    [by_hand], [zero] = figures["by hand"], figures["zero"]
    over = zero - by_hand
    row = (
        "job submitted → factory started by the autoscaler → engine running",
        f"{zero:.2f} s",
        f"factory started by hand → engine running {by_hand:.2f} s, so {over:.2f} s over it",
        verdict(met=over <= OVER_S, goal=f"≤ {OVER_S:.0f} s over the factory's own start"),
    )
    note = "Provider `process`; with the byte code there, as it is from the second start on."
    return [Section("From zero", [row], note)]


class Site:
    """A coordinator without factories, and a machine that could be one."""

    def __init__(self, folder: Path, served: Served) -> None:
        self._folder = folder
        self._served = served
        self._number = 0
        (folder / "aq.toml").write_text(SETTINGS)
        told = {"AQ_FLEET_API": served.url, "AQ_FLEET_TOKEN": served.token}
        self._environ = environment(folder / "home", told)

    def by_hand(self) -> float:
        """Seconds from the start of a factory that has joined to the engine of a job that waits."""
        mark = asyncio.run(self._submitted())
        data = self._folder / f"disk-{self._number}"
        environ = self._environ | {"AQ_DATA": str(data)}
        secret = self._aq("factory", "invite", environ=environ).strip()
        name = f"by-hand-{self._number}"
        self._aq("factory", "enroll", name, "--secret", secret, environ=environ)
        begun = time.time()
        self._aq("factory", "run", "--once", "--leave", environ=environ)
        return marked(mark) - begun

    def scaled(self) -> tuple[float]:
        """The same from nothing, with an autoscaler that follows."""
        with self.autoscaler():
            return (self.from_zero(),)

    def from_zero(self) -> float:
        """Seconds from the submit of a job to its engine; there is no factory before, nor after."""
        begun = time.time()
        mark = asyncio.run(self._submitted())
        until(lambda: marked(mark) > 0)
        until(lambda: not json.loads(self._aq("factory", "list", "--json"))["factories"])
        return marked(mark) - begun

    @contextmanager
    def autoscaler(self) -> Iterator[None]:
        """`aq autoscale` as a process that has looked once."""
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

    async def _submitted(self) -> Path:
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


def marked(mark: Path) -> float:
    """When an engine left its mark; 0 when it has not."""
    return int(mark.read_text().strip() or "0") / 1e9 if mark.exists() else 0.0


def until(look: Callable[[], bool]) -> None:
    """Wait for a condition, for a while."""
    ends = time.monotonic() + WITHIN_S
    while not look():
        assert time.monotonic() < ends, "it took too long"
        time.sleep(LOOK_EVERY_S)
