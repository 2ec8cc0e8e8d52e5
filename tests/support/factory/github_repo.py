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
NO_NETWORK = {"PATH": os.environ["PATH"], "https_proxy": "http://127.0.0.1:9"}
"""The emulator has an API, but no git."""
QUICK = PollingPace(first_s=0.001, longest_s=0.002, total_s=30.0)
"""Long enough for a slow machine, with minimal pauses."""
NO_POLLING = PollingPace(first_s=0.001, longest_s=0.002, total_s=0.0)
"""No time for any pause."""


class Interrupted(BaseException):
    """The machine crashed at this moment."""


class RecordingTransport(httpx.AsyncBaseTransport):
    """A real transport that records changes, and may break or block at one of them."""

    def __init__(
        self, *, breaks_after: int | None = None, sleeps_before: int | None = None
    ) -> None:
        """Break after the given change was made, before its response arrives.

        Or block before the given change is sent, until `woken` is set.
        """
        self.changes: list[str] = []
        self.requests: list[httpx.Request] = []
        self.blocked, self.woken = asyncio.Event(), asyncio.Event()
        self._breaks_after = breaks_after
        self._sleeps_before = sleeps_before
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.method != "GET" and len(self.changes) + 1 == self._sleeps_before:
            self.blocked.set()
            await self.woken.wait()
        response = await self._inner.handle_async_request(request)
        if request.method == "GET":
            return response
        await response.aread()
        if response.is_success:
            self.changes.append(f"{request.method} {request.url.path.rpartition('/')[2]}")
        if len(self.changes) == self._breaks_after:
            raise Interrupted
        return response

    async def aclose(self) -> None:
        """Reopen the transport for the next client."""
        await self._inner.aclose()
        self._inner = httpx.AsyncHTTPTransport()


def an_empty_machine() -> Inventory:
    """Return the inventory of a machine without any tools."""
    nothing = DetectedMachine(os="linux", capabilities=(), repos=(), engines={})

    async def detect() -> DetectedMachine:
        return nothing

    return Inventory(nothing, detect)


class Reporter:
    """A reporter that keeps reports and confirms or denies the lease."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.holds_lease = True

    def report(self, report: Report, *, last: bool = False) -> None:
        self.reports.append(report)

    async def confirm_lease(self) -> bool:
        return self.holds_lease

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
        return [(report.note or "").partition(" ")[0] for report in self.reports]


class GitHubRepo:
    """One GitHub repo, as its owners use it."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.name = f"notes-{uuid.uuid4().hex[:12]}"
        self.api = str(http.base_url)
        self.url = f"/repos/{OWNER}/{self.name}"

    async def create(self) -> None:
        await self.ask("POST", "/user/repos", {"name": self.name, "auto_init": True})

    async def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        response = await self.http.request(method, path, json=body)
        assert response.is_success, response.text
        return response.json()

    async def commit_of(self, branch: str) -> str:
        found = await self.ask("GET", f"{self.url}/git/ref/heads/{branch}")
        commit: str = found["object"]["sha"]
        return commit

    async def push(self, branch: str, parent: str | None = None) -> str:
        """Push a new commit to a branch, on its head or on `parent`, and return the commit."""
        parent_commit = parent or await self.commit_of(branch)
        tree = (await self.ask("GET", f"{self.url}/git/commits/{parent_commit}"))["tree"]["sha"]
        body_fields = {"message": f"work {uuid.uuid4()}", "tree": tree, "parents": [parent_commit]}
        commit: str = (await self.ask("POST", f"{self.url}/git/commits", body_fields))["sha"]
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
        body_fields = {
            "required_status_checks": {"strict": False, "contexts": checks},
            "enforce_admins": False,
            "required_pull_request_reviews": None,
            "restrictions": None,
        }
        await self.ask("PUT", f"{self.url}/branches/main/protection", body_fields)

    async def check(self, commit: str, name: str, conclusion: str | None) -> None:
        """Set the conclusion of a check; None starts it."""
        body_fields: dict[str, object] = {"name": name, "head_sha": commit, "status": "in_progress"}
        if conclusion is not None:
            body_fields |= {"status": "completed", "conclusion": conclusion}
        await self.ask("POST", f"{self.url}/check-runs", body_fields)


def forges(
    repo: GitHubRepo,
    transport: RecordingTransport | None = None,
    *,
    pace: PollingPace = QUICK,
    token: str = TOKEN,
) -> Forges:
    """Return a factory's access to the emulator."""
    access = {HOST: ForgeAccess("HUB_TOKEN", repo.api)}
    return Forges(
        access, {"HUB_TOKEN": token}, pace=pace, transport=transport or RecordingTransport()
    )


class ShippingRuns:
    """Runs of jobs that ship to the repo, each on a separate machine."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._runs: list[ActiveRun] = []

    def close(self) -> None:
        """End the runs and flush their logs."""
        while self._runs:
            self._runs.pop().close()

    def run(
        self,
        forges_of_factory: Forges,
        *,
        commit: str,
        run_id: str = "job-1.2",
        secrets: Sequence[str] = (),
        home: Path | None = None,
        product: str = "default",
        **manifest: Any,  # noqa: ANN401 - as the manifest has them
    ) -> tuple[ActiveRun, Reporter]:
        """Return a run that ships a commit, and its reporter."""
        data_dir = DataDir.under(self._folder / uuid.uuid4().hex)
        address = f"https://{HOST}/{OWNER}/{self._name}.git"
        equipment = Equipment(
            data_dir=data_dir,
            engines={},
            inventory=an_empty_machine(),
            sandbox=Sandbox(None, "none"),
            environ={},
            secrets=(*secrets, *forges_of_factory.tokens),
            factory_id="mac-1",
            mirrors=Mirrors(data_dir.mirrors, Git(environ=NO_NETWORK)),
            repos=Repos(None, {"notes": address}, ("*",), AllowedRemotes()),
            forges=forges_of_factory,
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
