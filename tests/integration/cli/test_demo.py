"""`aq demo`: it shows everything that it promises and leaves nothing behind."""

import math
import re
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from gigafactory.client import fleet, jobs
from gigafactory.client.transport.sync_client import Client
from gigafactory.config.data_dir import ADMIN_TOKEN
from gigafactory.demo.script import demo_jobs
from gigafactory.domain.errors import Refused
from gigafactory.wire.jobs import JobFilter, JobView
from tests.services import bubblewrap
from tests.services.aq import AQ, Shell, environment
from tests.services.debian import Unavailable

SECONDS = 30.0
"""The longest time that the demo may take on a busy machine."""


def test_demo_jobs_depend_only_on_the_seed() -> None:
    assert demo_jobs(7, "/repo") == demo_jobs(7, "/repo")
    assert demo_jobs(7, "/repo") != demo_jobs(8, "/repo")
    assert len(demo_jobs(7, "/repo")) >= 11


def said(out: IO[str]) -> str:
    """Return the demo's introduction, up to the line about Ctrl-C."""
    lines = []
    for line in iter(out.readline, ""):
        lines.append(line)
        if "Ctrl-C ends it" in line:
            break
    return "".join(lines)


class Audience:
    """A client that polls jobs, attention items and factories until the demo ends."""

    def __init__(self) -> None:
        self.stages: defaultdict[str, set[str]] = defaultdict(set)
        self.last: dict[str, JobView] = {}
        self.matters: set[tuple[str, str | None]] = set()
        self.factories: dict[str, frozenset[str]] = {}
        self.began = self.moved = math.inf
        """When they sat down, and when the first job was at work."""

    def watch(self, url: str, token: str, ended: Callable[[], bool]) -> None:
        self.began = time.monotonic()
        with Client(url, token) as client:
            while not ended():
                # The server stops before the process of the demo ends.
                with suppress(Refused):
                    self._look(client)
                time.sleep(0.2)

    def _look(self, client: Client) -> None:
        for job in client.send(jobs.find(JobFilter(limit=100))).jobs:
            self.stages[job.name].add(job.stage)
            self.last[job.name] = job
            if job.stage == "building":
                self.moved = min(self.moved, time.monotonic())
        for matter in client.send(fleet.attention()).attention:
            self.matters.add((matter.kind, matter.product_id))
        for factory in client.send(fleet.factories()).factories:
            self.factories[factory.id] = frozenset(factory.capabilities)


def test_demo_plays_to_its_end_and_leaves_nothing_behind(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"TMPDIR": str(tmp_path)})
    seen = Audience()
    with shell.start("demo", "--once", "--seed", "7", "--port", "0") as running:
        assert running.stdout is not None
        out = said(running.stdout)
        pages = re.search(r"open +http://gigafactory-\w+\.localhost:(\d+)/login\?code=", out)
        data = re.search(r"AQ_DATA=(\S+) ", out)
        assert pages is not None
        assert data is not None
        token = (Path(data[1]) / ADMIN_TOKEN).read_text().strip()
        seen.watch(f"http://127.0.0.1:{pages[1]}", token, lambda: running.poll() is not None)
        err = running.communicate(timeout=30)[1]
    assert running.returncode == 0, err
    assert list(tmp_path.glob("aq-demo-*")) == []
    assert {*seen.factories} == {"mac-1", "linux-1", "linux-2"}
    assert len({*seen.factories.values()}) == 3, "they differ in what they can do"
    assert "gpu" in seen.factories["linux-1"]
    assert seen.moved - seen.began < SECONDS, "everything moves within seconds"
    leaves = [job for job in seen.last.values() if job.kind != "composite"]
    assert len(leaves) >= 12
    assert len([job for job in leaves if job.parent_id and job.deps]) >= 3, "a DAG"
    assert seen.last["flaky"].lease_epoch >= 2, "a failure with a retry"
    assert seen.last["flaky"].stage in {"testing", "shipped"}
    assert "review" in seen.stages["terms"], "a review"
    assert ("budget", "studio") in seen.matters, "a budget at its end"
    assert {job.name: job.stage for job in leaves}["logo"] == "queued", (
        "no factory can run one of them"
    )
    films = {seen.last[f"film-{number}"].stage for number in (1, 2, 3)}
    assert films == {"testing", "queued"}, "some were paid for, and some wait for money"
    assert seen.last["survivor"].lease_epoch >= 2, "a killed factory's work goes on"
    assert seen.last["survivor"].stage in {"testing", "shipped"}
    assert "shipped" in {stage for each in seen.stages.values() for stage in each}


def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"TMPDIR": str(tmp_path)})
    with shell.start("demo", "--port", "0") as running:
        assert running.stdout is not None
        said(running.stdout)
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
    assert list(tmp_path.glob("aq-demo-*")) == []


def test_demo_needs_no_network(tmp_path: Path) -> None:
    try:
        bwrap = bubblewrap.program()
    except Unavailable as why:
        pytest.skip(str(why))
    alone = [str(bwrap), "--dev-bind", "/", "/", "--unshare-net", "--die-with-parent"]
    done = subprocess.run(
        [*alone, AQ, "demo", "--once", "--port", "0"],
        env=environment(tmp_path, TMPDIR=str(tmp_path), AQ_FACTORY_SANDBOX="none"),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
