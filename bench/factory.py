"""Overhead of a factory compared with plain git, and its memory when idle and with a large log."""

import asyncio
import contextlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from fleet import API, AQ, Served, environment, serving
from harness import Harness
from table import Section, ms, size, verdict
from wire import Wire, wire

FILES = 5000
FOLDERS = 100
PRINTED = 1_000_000_000
IDLE_MAX = 80_000_000
FLAT = 1.25
"""Allowed growth of memory while an engine prints: fixed buffers and Python's own caches."""
ENDS_WITHIN_S = 600.0
UNFINISHED = {"queued", "assigned", "building"}
SCRIPT = "date +%s%N > {mark}; echo changed >> src/0/0.py"


def sections(harness: Harness) -> list[Section]:
    """Measure one factory process on a repo of ordinary size."""
    with tempfile.TemporaryDirectory() as made, serving() as served:
        setup = FactorySetup(Path(made), served)
        with setup.factory() as pid:
            figures = harness.in_turn(
                {"by hand": setup.by_hand, "run": setup.run, "bare": setup.bare_command}
            )
            idle = memory(pid)
            printing = setup.peak_while_printing(pid, PRINTED // harness.scale)
    return [_costs(figures), _memory(idle, printing, PRINTED // harness.scale)]


def _costs(figures: dict[str, tuple[float, ...]]) -> Section:
    (added, committed), (begun, ended) = figures["by hand"], figures["run"]
    [bare] = figures["bare"]
    by_hand, overhead = added + committed, ended - bare
    rows = [
        (
            "offer → result reported, without engine time",
            ms(overhead),
            f"plain git {ms(by_hand)}: `worktree add` {ms(added)}, `commit` {ms(committed)}",
            verdict(
                met=overhead <= 1.5 * by_hand,
                goal=f"≤ 1.5 × plain git; measured {overhead / by_hand:.2f} ×",
            ),
        ),
        (
            "offer → engine started",
            ms(begun),
            "",
            verdict(
                met=begun <= 3 * added,
                goal=f"≤ 3 × `git worktree add`; measured {begun / added:.2f} ×",
            ),
        ),
    ]
    note = (
        f"A repo of {FILES:,} files with a warm mirror. The factory also creates a work branch on"
        " the remote at the start,\nmeasures the diff, commits, confirms the lease and pushes."
    )
    return Section("Factory overhead of a run", rows, note)


def _memory(idle: int, printing: int, printed: int) -> Section:
    rows = [
        ("factory, idle", size(idle), "", verdict(met=idle <= IDLE_MAX, goal="≤ 80 MB")),
        (
            f"factory, peak while an engine prints {size(printed)}",
            size(printing),
            f"{printing / idle:.2f} × idle",
            verdict(met=printing <= FLAT * idle, goal=f"flat: ≤ {FLAT} × idle"),
        ),
    ]
    return Section("Factory memory", rows)


class FactorySetup:
    """A repo, a coordinator and a factory."""

    def __init__(self, folder: Path, served: Served) -> None:
        self._folder = folder
        self._served = served
        self._number = 0
        self._checkout = folder / "checkout"
        self._remote = folder / "repos" / "notes.git"
        for number in range(FILES):
            file = self._checkout / "src" / str(number % FOLDERS) / f"{number}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"def f_{number}() -> int:\n    return {number}\n" * 20)
        self._git("init", "-q", "--initial-branch=main")
        self._git("add", "-A")
        self._git("commit", "-q", "-m", "files")
        self._git("clone", "-q", "--bare", str(self._checkout), str(self._remote))

    def _git(self, *args: str, folder: Path | None = None) -> None:
        who = ("-c", "user.name=a person", "-c", "user.email=person@example.org")
        subprocess.run(["git", *who, *args], cwd=folder or self._checkout, check=True)

    @contextmanager
    def factory(self) -> Iterator[int]:
        """Run `aq factory run` and yield its process id after a first job."""
        data = self._folder / "disk"
        data.mkdir()
        environ = environment(
            data,
            {
                "AQ_FACTORY_REPOS": str(self._remote.parent),
                "AQ_FACTORY_SANDBOX": "none",
                "AQ_FACTORY_ID": "bench",
                "PATH": "/usr/local/bin:/usr/bin:/bin",
            },
        )
        secret = asyncio.run(self._invite())
        asked = [AQ, "factory", "enroll", "--url", self._served.url, "--secret", secret]
        subprocess.run(asked, env=environ, check=True, stdout=subprocess.DEVNULL)
        with subprocess.Popen([AQ, "factory", "run"], env=environ) as process:
            try:
                self.run()
                yield process.pid
            finally:
                process.terminate()
                process.wait(60)

    async def _invite(self) -> str:
        async with wire(self._served.url, self._served.token) as people:
            made = await people.call("POST", f"{API}/enrollments", {"products": ["*"]})
            return str(made["secret"])

    def by_hand(self) -> tuple[float, float]:
        """Return the seconds of `git worktree add` and of `git commit`."""
        place = self._folder / "by-hand"
        begun = time.perf_counter()
        self._git("worktree", "add", "-q", "--detach", str(place), "main")
        added = time.perf_counter() - begun
        with (place / "src/0/0.py").open("a") as file:
            file.write("changed\n")
        begun = time.perf_counter()
        self._git("commit", "-q", "-a", "-m", "changed", folder=place)
        committed = time.perf_counter() - begun
        self._git("worktree", "remove", "--force", str(place))
        return added, committed

    def bare_command(self) -> tuple[float]:
        """Return the seconds of the engine's command alone."""
        place = self._folder / "bare"
        (place / "src/0").mkdir(parents=True)
        script = SCRIPT.format(mark=self._folder / "bare.mark")
        begun = time.perf_counter()
        subprocess.run(["/bin/sh", "-c", script], cwd=place, check=True)
        lasted = time.perf_counter() - begun
        shutil.rmtree(place)
        return (lasted,)

    def run(self) -> tuple[float, float]:
        """Return the seconds from a job's offer to the start of its engine, and to its result."""
        self._number += 1
        mark = self._folder / f"mark-{self._number}"
        times = asyncio.run(self._event_times(SCRIPT.format(mark=mark)))
        started = int(mark.read_text()) / 1e9
        return started - times["offered"], times["testing"] - times["offered"]

    async def _event_times(self, script: str) -> dict[str, float]:
        async with wire(self._served.url, self._served.token) as people:
            job = await self._finish_job(people, script)
            found = await people.call("GET", f"{API}/jobs/{job}?include=events")
        times: dict[str, float] = {}
        for event in found["events"]:
            at = datetime.fromisoformat(event["at"]).timestamp()
            times.setdefault(event["type"], at)
            times.setdefault(event["stage"], at)
        return times

    async def _finish_job(self, people: Wire, script: str) -> str:
        manifest = {"engine": "command", "repo": "notes", "verify": "true", "setup": "none"}
        asked = {"manifest": manifest | {"name": f"job-{self._number}"}, "body": script}
        job = (await people.call("POST", f"{API}/jobs", asked))["id"]
        async with asyncio.timeout(ENDS_WITHIN_S):
            while (stage := await _stage(people, job)) in UNFINISHED:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
        assert stage == "testing", stage
        return str(job)

    def peak_while_printing(self, pid: int, printed: int) -> int:
        """Return the peak memory of the factory while an engine prints this many bytes."""
        self._number += 1
        line = "all work and no play makes jack a dull boy, and so it goes on and on"
        script = f"yes '{line}' | head -c {printed}; echo; echo changed >> src/0/0.py"
        return asyncio.run(self._peak(pid, script))

    async def _peak(self, pid: int, script: str) -> int:
        highest = 0

        async def watch() -> None:
            nonlocal highest
            while True:
                highest = max(highest, memory(pid))
                await asyncio.sleep(0.1)

        async with wire(self._served.url, self._served.token) as people:
            watching = asyncio.create_task(watch())
            await self._finish_job(people, script)
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        return highest


async def _stage(people: Wire, job: str) -> str:
    found: dict[str, Any] = await people.call("GET", f"{API}/jobs/{job}")
    return str(found["stage"])


def memory(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    with contextlib.suppress(FileNotFoundError):
        status = Path(f"/proc/{pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        assert found is not None, status
        return int(found[1]) * 1024
    shown = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(pid)], check=True, capture_output=True, text=True
    )
    return int(shown.stdout) * 1024
