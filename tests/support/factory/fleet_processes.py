"""A yard of processes: a coordinator and factories that may be killed or stopped at any time."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from gigafactory.factory.agent.membership import FleetMembership, save_membership
from gigafactory.factory.process import orphans as strays
from gigafactory.factory.run import run_registry
from tests.services.aq import environment
from tests.services.few_tools import search_path
from tests.services.fork_server import ForkServer
from tests.support.api_server import API
from tests.support.crash.restarting_coordinator import Lives, living
from tests.support.factory.git_repo import plain_git
from tests.support.factory.local_fleet import Yard

SHORT = {"AQ_LEASE_TTL": "3", "AQ_FLEET_LEASE_RENEW_SEC": "1"}
ENDS_WITHIN_S = 60.0


class FarHost:
    """The coordinator process, as long as it keeps its address."""

    def __init__(self, lives: Lives, people: httpx.AsyncClient) -> None:
        self._lives = lives
        self._people = people

    @property
    def url(self) -> str:
        """Where it answers, in all of its lives."""
        return self._lives.life.url

    async def factory_token(self, factory_id: str, /) -> str:
        """The token of a new factory."""
        invited = (await self._people.post("/enrollments", json={"products": ["*"]})).json()
        asked = {"secret": invited["secret"], "factoryId": factory_id}
        token: str = (await self._people.post("/factories/enroll", json=asked)).json()["token"]
        return token


class FarYard(Yard):
    """A yard whose coordinator and factories may die at any time."""

    def __init__(
        self, folder: Path, lives: Lives, people: httpx.AsyncClient, forks: ForkServer
    ) -> None:
        super().__init__(folder, FarHost(lives, people), people)
        self.lives = lives
        self._forks = forks
        self._names: set[str] = set()
        # The factory's git keeps reflogs where a repo has them.
        plain_git(self.remote.path, "config", "core.logAllRefUpdates", "always")
        (self.remote.path / "logs").mkdir(exist_ok=True)

    async def enrolled(self, name: str) -> Path:
        """Make a factory a member of the fleet; gives its data folder."""
        data = self.folder / f"disk-{name}"
        save_membership(
            self.data_dir(name), FleetMembership(self.server.url, name, await self.token(name))
        )
        self._names.add(name)
        return data

    async def doomed(self, name: str, *, at: str, source: str = "stream") -> int:
        """Start `aq factory run` as a process that is doomed; gives its number."""
        data = await self.enrolled(name)
        environ = environment(
            data,
            AQ_DATA=str(data),
            PATH=search_path(),
            AQ_FACTORY_REPOS=str(self.folder),
            AQ_FACTORY_SANDBOX="none",
            AQ_FACTORY_SLOTS="2",
            AQ_FACTORY_SEATS="command=2",
            AQ_FACTORY_SOURCE=source,
        )
        typed = ("factory", "run")
        child = await asyncio.to_thread(
            self._forks.start, *typed, folder=data, environ=environ, at=at
        )
        assert child.first_line, self.said(name)
        return child.pid

    async def ended(self, pid: int) -> int | None:
        """How a factory process ended."""
        return await asyncio.to_thread(self._forks.wait, pid, within_s=ENDS_WITHIN_S)

    def said(self, name: str) -> str:
        """What a factory process wrote of its work."""
        return (self.folder / f"disk-{name}" / "log").read_text(errors="replace")

    def moves(self, branch: str) -> list[str]:
        """Every commit that a branch of the remote has ever been, the newest first."""
        shown = ("reflog", "show", "--format=%H", f"refs/heads/{branch}", "--")
        return plain_git(self.remote.path, *shown, check=False).split()

    def refs(self) -> Mapping[str, str]:
        """All refs of the remote."""
        listed = plain_git(self.remote.path, "for-each-ref", "--format=%(refname) %(objectname)")
        return dict(line.split() for line in listed.splitlines())

    async def sweep(self) -> None:
        """End what factories that died have left."""
        for name in self._names:
            for run in run_registry.load_runs(self.data_dir(name)):
                await strays.kill_orphans(run.mark)


@asynccontextmanager
async def a_far_yard(
    forks: ForkServer,
    folder: Path,
    *,
    settings: Mapping[str, str] = SHORT,
    dooms: Sequence[str] = (),
) -> AsyncIterator[FarYard]:
    """A yard with a coordinator process; by default its leases are short."""
    home = folder / "coordinator"
    home.mkdir()
    lives = Lives(forks, home, settings=settings, dooms=dooms, keeps_port=True)
    async with living(lives):
        headers = {"authorization": f"Bearer {lives.life.token}", "x-product-id": "notes"}
        base = lives.life.url + API
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=30) as people:
            yard = FarYard(folder, lives, people, forks)
            try:
                yield yard
            finally:
                await yard.sweep()
