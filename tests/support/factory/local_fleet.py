"""A coordinator, a remote and real factories, each with a disk of its own."""

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

RESTS = frozenset({"review", "testing", "shipped", "failed", "dead_letter", "cancelled"})
"""The stages in which no factory works on a job."""


class Clock(SystemClock):
    """The coordinator's time, which can be made to leap."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead = timedelta()

    def leap(self, ahead: timedelta) -> None:
        """Let so much time pass at once."""
        self._ahead += ahead

    def now(self) -> datetime:
        return super().now() + self._ahead


class Host(Protocol):
    """A coordinator, wherever it runs."""

    @property
    def url(self) -> str:
        """Where it answers."""

    async def factory_token(self, factory_id: str, /) -> str:
        """The token of a new factory."""


class Yard:
    """Everything that a job needs, but for a person."""

    def __init__(self, folder: Path, server: Host, people: httpx.AsyncClient) -> None:
        self.folder = folder
        self.server = server
        self.people = people
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
        """A factory at work, until the block ends."""
        member = FleetMembership(self.server.url, name, await self.token(name))
        usual: dict[str, Any] = {"slots": 2, "repos": self.folder, "sandbox": "none"}
        environ = environ or {"PATH": self._search_path}
        async with open_agent(
            FactorySettings(**usual | settings),
            member,
            self.data_dir(name),
            environ=environ,
            ends=ends,
        ) as agent:
            working = asyncio.create_task(agent.run())
            try:
                yield agent
            finally:
                working.cancel()
                await asyncio.wait([working])

    async def token(self, name: str) -> str:
        """The token of a factory, which joins when it is asked for the first time."""
        if name not in self._tokens:
            self._tokens[name] = await self.server.factory_token(name)
        return self._tokens[name]

    def data_dir(self, name: str = "mac-1") -> DataDir:
        """The disk of a factory."""
        return DataDir.under(self.folder / f"disk-{name}")

    async def submit(self, body: str, **manifest: object) -> str:
        """Hand in a job for the remote, without what is None; gives its id."""
        usual = {"engine": "command", "repo": self.repo, "verify": "true"}
        said = {name: value for name, value in {**usual, **manifest}.items() if value is not None}
        asked = {"manifest": said, "body": body}
        answer = await self.people.post("/jobs", json=asked)
        assert answer.status_code == 201, answer.text
        job_id: str = answer.json()["id"]
        return job_id

    async def job(self, job_id: str) -> dict[str, Any]:
        """A job as it is now."""
        told: dict[str, Any] = (await self.people.get(f"/jobs/{job_id}")).json()
        return told

    async def rests(self, job_id: str, *, at: str | None = None) -> dict[str, Any]:
        """Wait until no factory works on the job, or until it reaches a stage; return it."""

        async def there() -> bool:
            stage = (await self.job(job_id))["stage"]
            return stage == at if at else stage in RESTS

        await until(there, within_s=60)
        return await self.job(job_id)

    async def act(self, job_id: str, action: str, **wish: object) -> dict[str, Any]:
        """A person decides something, at the commit that the job shows."""
        if action in {"approve", "ship"} and "commit" not in wish:
            checkpoint = (await self.people.get(f"/jobs/{job_id}")).json()["checkpoint"]
            wish |= {"commit": checkpoint["commit"]} if checkpoint else {}
        answer = await self.people.post(f"/jobs/{job_id}/actions/{action}", json=wish)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    async def log(self, job_id: str) -> str:
        """What a job has printed."""
        return (await self.people.get(f"/jobs/{job_id}/logs")).text

    async def prints(self, job_id: str, text: str) -> None:
        """Come back when a job has printed this."""

        async def printed() -> bool:
            return text in await self.log(job_id)

        await until(printed, within_s=60)

    async def runs(self, job_id: str) -> list[dict[str, Any]]:
        """All attempts at a job, the oldest first."""
        told = (await self.people.get(f"/jobs/{job_id}/runs")).json()
        found: list[dict[str, Any]] = told["runs"]
        return found

    async def story(self, job_id: str) -> list[str]:
        """The types of a job's events."""
        told = (await self.people.get(f"/jobs/{job_id}/events")).json()
        return [event["type"] for event in told["events"]]


class YardHere(Yard):
    """A yard whose coordinator is in this process, with a clock of its own."""

    def __init__(
        self, folder: Path, server: Server, people: httpx.AsyncClient, clock: Clock
    ) -> None:
        super().__init__(folder, server, people)
        self.here = server
        self.clock = clock


@asynccontextmanager
async def a_yard(folder: Path, *, served: bool = False) -> AsyncIterator[YardHere]:
    """A yard with a fresh coordinator; with `served`, its remote is a server of its own."""
    async with AsyncExitStack() as stack:
        clock = Clock()
        server = await stack.enter_async_context(a_server(folder / "coordinator", clock=clock))
        people = await stack.enter_async_context(server.client())
        yard = YardHere(folder, server, people, clock)
        if served:
            yard.serve_remote()
        yield yard
