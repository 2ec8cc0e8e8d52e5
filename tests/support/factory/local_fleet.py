"""A coordinator, a remote and real factories, each with a separate data folder."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import httpx

from gigafactory.config.settings import FactorySettings
from gigafactory.factory.agent.agent import NEVER_EXIT, Agent, ExitCondition
from gigafactory.factory.agent.membership import FleetMembership
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.system.clock import SystemClock
from gigafactory.wiring.factory import open_agent
from tests.services.few_tools import search_path
from tests.support.api_server import Server, a_server
from tests.support.factory.git_repo import Remote, fake_ssh
from tests.support.polling import until

IDLE_STAGES = frozenset({"review", "testing", "shipped", "failed", "dead_letter", "cancelled"})
"""The stages in which no factory works on a job."""


class Clock(SystemClock):
    """The coordinator's clock, which can be advanced."""

    def __init__(self) -> None:
        super().__init__()
        self._advanced = timedelta()

    def advance(self, by: timedelta) -> None:
        """Advance the clock."""
        self._advanced += by

    def now(self) -> datetime:
        return super().now() + self._advanced


class Host(Protocol):
    """A coordinator in this or another process."""

    @property
    def url(self) -> str:
        """Return its address."""

    async def factory_token(self, factory_id: str, /) -> str:
        """Enroll a factory and return its token."""


class FactoryHarness:
    """A remote, an API client and factories of one coordinator."""

    def __init__(self, folder: Path, server: Host, api: httpx.AsyncClient) -> None:
        self.folder = folder
        self.server = server
        self.api = api
        self._tokens: dict[str, str] = {}
        self.remote = Remote(folder / "remote.git")
        self.start = self.remote.commit({"README.md": "Notes.\n"})
        self.repo = str(self.remote.path)
        """The remote as jobs name it."""
        self._search_path = search_path()

    def serve_remote(self) -> None:
        """Make the remote a server with its own hooks, instead of a repo on this machine."""
        self.repo = self.remote.url
        self._search_path = f"{fake_ssh(self.folder).parent}:{search_path()}"

    @asynccontextmanager
    async def factory(
        self,
        name: str = "mac-1",
        *,
        ends: ExitCondition = NEVER_EXIT,
        environ: Mapping[str, str] | None = None,
        **settings: object,
    ) -> AsyncIterator[Agent]:
        """Run a factory until the block ends."""
        membership = FleetMembership(self.server.url, name, await self.token(name))
        defaults: dict[str, Any] = {"slots": 2, "repos": self.folder, "sandbox": "none"}
        environ = environ or {"PATH": self._search_path}
        async with open_agent(
            FactorySettings(**defaults | settings),
            membership,
            self.data_dir(name),
            environ=environ,
            ends=ends,
        ) as agent:
            task = asyncio.create_task(agent.run())
            try:
                yield agent
            finally:
                task.cancel()
                await asyncio.wait([task])

    async def token(self, name: str) -> str:
        """Return the token of a factory; enroll it first if it is new."""
        if name not in self._tokens:
            self._tokens[name] = await self.server.factory_token(name)
        return self._tokens[name]

    def data_dir(self, name: str = "mac-1") -> DataDir:
        """Return the data folder of a factory."""
        return DataDir.under(self.folder / f"disk-{name}")

    async def submit(self, body: str, **manifest: object) -> str:
        """Submit a job for the remote, without settings that are None; return its id."""
        defaults = {"engine": "command", "repo": self.repo, "verify": "true"}
        settings_given = {
            name: value for name, value in {**defaults, **manifest}.items() if value is not None
        }
        document = {"manifest": settings_given, "body": body}
        answer = await self.api.post("/jobs", json=document)
        assert answer.status_code == 201, answer.text
        job_id: str = answer.json()["id"]
        return job_id

    async def job(self, job_id: str) -> dict[str, Any]:
        """Return a job."""
        response: dict[str, Any] = (await self.api.get(f"/jobs/{job_id}")).json()
        return response

    async def wait_until_idle(self, job_id: str, *, at: str | None = None) -> dict[str, Any]:
        """Wait until no factory works on the job, or until it reaches a stage; return it."""

        async def is_done() -> bool:
            stage = (await self.job(job_id))["stage"]
            return stage == at if at else stage in IDLE_STAGES

        await until(is_done, within_s=60)
        return await self.job(job_id)

    async def act(self, job_id: str, action: str, **fields: object) -> dict[str, Any]:
        """Perform an action on a job, at its current commit."""
        if action in {"approve", "ship"} and "commit" not in fields:
            checkpoint = (await self.api.get(f"/jobs/{job_id}")).json()["checkpoint"]
            fields |= {"commit": checkpoint["commit"]} if checkpoint else {}
        answer = await self.api.post(f"/jobs/{job_id}/actions/{action}", json=fields)
        assert answer.status_code == 200, answer.text
        response: dict[str, Any] = answer.json()
        return response

    async def log(self, job_id: str) -> str:
        """Return the log of a job."""
        return (await self.api.get(f"/jobs/{job_id}/logs")).text

    async def wait_for_log(self, job_id: str, text: str) -> None:
        """Wait until the log of a job contains this text."""

        async def printed() -> bool:
            return text in await self.log(job_id)

        await until(printed, within_s=60)

    async def runs(self, job_id: str) -> list[dict[str, Any]]:
        """Return all runs of a job, oldest first."""
        response = (await self.api.get(f"/jobs/{job_id}/runs")).json()
        found: list[dict[str, Any]] = response["runs"]
        return found

    async def event_types(self, job_id: str) -> list[str]:
        """Return the types of a job's events."""
        response = (await self.api.get(f"/jobs/{job_id}/events")).json()
        return [event["type"] for event in response["events"]]


class LocalHarness(FactoryHarness):
    """A harness with a coordinator in this process and a clock that can be advanced."""

    def __init__(self, folder: Path, server: Server, api: httpx.AsyncClient, clock: Clock) -> None:
        super().__init__(folder, server, api)
        self.api_server = server
        self.clock = clock


@asynccontextmanager
async def a_local_harness(folder: Path, *, served: bool = False) -> AsyncIterator[LocalHarness]:
    """Start a coordinator in this process and yield a harness; `served`: with a remote server."""
    async with AsyncExitStack() as stack:
        clock = Clock()
        server = await stack.enter_async_context(a_server(folder / "coordinator", clock=clock))
        api = await stack.enter_async_context(server.client())
        harness = LocalHarness(folder, server, api, clock)
        if served:
            harness.serve_remote()
        yield harness
