"""A repo on an emulated GitHub, people who push to it, and runs that ship to it."""

import asyncio
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from gigafactory.domain.job.job import Checkpoint, Step
from gigafactory.domain.job.worker_report import Report
from gigafactory.domain.manifest.manifest import Manifest
from gigafactory.factory.core.assignment import Assignment
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.core.stop import StopSignal
from gigafactory.factory.forges.registry import ForgeAccess, Forges, PollingPace
from gigafactory.factory.git.git import Git
from gigafactory.factory.git.mirror import Mirrors
from gigafactory.factory.git.remote_url import AllowedRemotes
from gigafactory.factory.git.repos import Repos
from gigafactory.factory.machine.detect import DetectedMachine
from gigafactory.factory.machine.inventory import Inventory
from gigafactory.factory.reporting.log_sender import RunLog
from gigafactory.factory.reporting.reporter import UploadableFile
from gigafactory.factory.run.active_run import ActiveRun, Equipment
from gigafactory.factory.sandbox.sandbox import Sandbox
from tests.services.emulate import OWNER, TOKEN

HOST = "git.example.com"
BRANCH = "aq/job/job-1"
NO_WAY_OUT = {"PATH": os.environ["PATH"], "https_proxy": "http://127.0.0.1:9"}
"""The hub has an API, and no git behind it."""
QUICK = PollingPace(first_s=0.001, longest_s=0.002, total_s=30.0)
"""Long enough for a slow machine, with pauses that are none."""
HURRIED = PollingPace(first_s=0.001, longest_s=0.002, total_s=0.0)
"""Without time for any pause."""


class Interrupted(BaseException):
    """The machine went away at this moment."""


class Wire(httpx.AsyncBaseTransport):
    """A real connection that counts what is changed over it, and may break after a change."""

    def __init__(
        self, *, breaks_after: int | None = None, sleeps_before: int | None = None
    ) -> None:
        """Break when the answer to the so manieth change is on its way back.

        Or fall asleep before the so manieth one is sent, until `woken`.
        """
        self.changes: list[str] = []
        self.requests: list[httpx.Request] = []
        self.asleep, self.woken = asyncio.Event(), asyncio.Event()
        self._breaks_after = breaks_after
        self._sleeps_before = sleeps_before
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.method != "GET" and len(self.changes) + 1 == self._sleeps_before:
            self.asleep.set()
            await self.woken.wait()
        answer = await self._inner.handle_async_request(request)
        if request.method == "GET":
            return answer
        await answer.aread()
        if answer.is_success:
            self.changes.append(f"{request.method} {request.url.path.rpartition('/')[2]}")
        if len(self.changes) == self._breaks_after:
            raise Interrupted
        return answer

    async def aclose(self) -> None:
        """Stay open for the next client: a connection is remade when it is needed."""
        await self._inner.aclose()
        self._inner = httpx.AsyncHTTPTransport()


def an_empty_machine() -> Inventory:
    """A machine on which nothing was found, and nothing ever is."""
    nothing = DetectedMachine(os="linux", capabilities=(), repos=(), engines={})

    async def look() -> DetectedMachine:
        return nothing

    return Inventory(nothing, look)


class Reporter:
    """Keeps what a run reports, and says whose the lease is."""

    def __init__(self) -> None:
        self.told: list[Report] = []
        self.holds = True

    def report(self, report: Report, *, last: bool = False) -> None:
        self.told.append(report)

    async def confirm_lease(self) -> bool:
        return self.holds

    async def send_log(self, source: RunLog) -> None:
        raise AssertionError("shipping sends its log through the executor")

    async def report_revert(self, job_id: str, commit: str) -> None:
        raise AssertionError("nothing was shipped before")

    async def fleet_access(self) -> None:
        """Never called: there is no coordinator."""

    async def add_artifact(self, file: UploadableFile) -> None:
        raise AssertionError("shipping leaves no artifacts")

    @property
    def intents(self) -> list[str]:
        return [(told.note or "").partition(" ")[0] for told in self.told]


class Hub:
    """One repo, as the people who own it see it."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.name = f"notes-{uuid.uuid4().hex[:12]}"
        self.api = str(http.base_url)
        self.url = f"/repos/{OWNER}/{self.name}"

    async def create(self) -> None:
        await self.ask("POST", "/user/repos", {"name": self.name, "auto_init": True})

    async def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        answer = await self.http.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    async def commit_of(self, branch: str) -> str:
        found = await self.ask("GET", f"{self.url}/git/ref/heads/{branch}")
        commit: str = found["object"]["sha"]
        return commit

    async def push(self, branch: str, parent: str | None = None) -> str:
        """A new commit on a branch, on what it or `parent` is."""
        above = parent or await self.commit_of(branch)
        tree = (await self.ask("GET", f"{self.url}/git/commits/{above}"))["tree"]["sha"]
        wish = {"message": f"work {uuid.uuid4()}", "tree": tree, "parents": [above]}
        commit: str = (await self.ask("POST", f"{self.url}/git/commits", wish))["sha"]
        if parent is None:
            await self.ask("PATCH", f"{self.url}/git/refs/heads/{branch}", {"sha": commit})
        else:
            ref = {"ref": f"refs/heads/{branch}", "sha": commit}
            await self.ask("POST", f"{self.url}/git/refs", ref)
        return commit

    async def pulls(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.ask("GET", f"{self.url}/pulls?state=all")
        return found

    async def comments(self, number: int) -> list[str]:
        found = await self.ask("GET", f"{self.url}/issues/{number}/comments")
        return [comment["body"] for comment in found]

    async def require(self, *checks: str) -> None:
        wish = {
            "required_status_checks": {"strict": False, "contexts": checks},
            "enforce_admins": False,
            "required_pull_request_reviews": None,
            "restrictions": None,
        }
        await self.ask("PUT", f"{self.url}/branches/main/protection", wish)

    async def check(self, commit: str, name: str, conclusion: str | None) -> None:
        """A check says how it goes; None: it has begun."""
        wish: dict[str, object] = {"name": name, "head_sha": commit, "status": "in_progress"}
        if conclusion is not None:
            wish |= {"status": "completed", "conclusion": conclusion}
        await self.ask("POST", f"{self.url}/check-runs", wish)


def forges(
    hub: Hub, wire: Wire | None = None, *, patience: PollingPace = QUICK, token: str = TOKEN
) -> Forges:
    """What a factory knows of the hub."""
    access = {HOST: ForgeAccess("HUB_TOKEN", hub.api)}
    return Forges(access, {"HUB_TOKEN": token}, pace=patience, transport=wire or Wire())


class Desk:
    """Runs of jobs whose repo is on the hub, each on a machine of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._runs: list[ActiveRun] = []

    def close(self) -> None:
        """End the runs, with all of their logs written."""
        while self._runs:
            self._runs.pop().close()

    def run(
        self,
        known: Forges,
        *,
        commit: str,
        run_id: str = "job-1.2",
        secrets: Sequence[str] = (),
        home: Path | None = None,
        product: str = "default",
        **manifest: Any,  # noqa: ANN401 - as the manifest has them
    ) -> tuple[ActiveRun, Reporter]:
        """A run that ships a commit, perhaps after an earlier one, and its reporter."""
        data_dir = DataDir.under(self._folder / uuid.uuid4().hex)
        address = f"https://{HOST}/{OWNER}/{self._name}.git"
        equipment = Equipment(
            data_dir=data_dir,
            engines={},
            inventory=an_empty_machine(),
            sandbox=Sandbox(None, "none"),
            environ={},
            secrets=(*secrets, *known.tokens),
            factory_id="mac-1",
            mirrors=Mirrors(data_dir.mirrors, Git(environ=NO_WAY_OUT)),
            repos=Repos(None, {"notes": address}, ("*",), AllowedRemotes()),
            forges=known,
        )
        assignment = Assignment(
            job_id="job-1",
            product=product,
            name="hello",
            title="Say hello",
            run_id=run_id,
            epoch=2,
            step=Step.SHIP,
            engine=None,
            manifest=Manifest(**{"repo": "notes", "ship": "merge", **manifest}),
            body="Say hello.",
            checkpoint=Checkpoint(branch=BRANCH, commit=commit, factory_id="mac-1"),
        )
        reporter = Reporter()
        run = ActiveRun(assignment, equipment, reporter, StopSignal())
        run.home = home or run.home
        self._runs.append(run)
        return run, reporter
