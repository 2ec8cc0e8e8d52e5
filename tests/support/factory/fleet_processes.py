"""A fleet of processes: a coordinator and factories that may be killed or stopped at any time."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from gigafactory.factory.agent.membership import FleetMembership, save_membership
from gigafactory.factory.process import orphans
from gigafactory.factory.run import run_registry
from tests.services.aq import environment
from tests.services.few_tools import search_path
from tests.services.fork_server import ForkServer
from tests.support.api_server import API
from tests.support.crash.restarting_coordinator import RestartingCoordinator, running_coordinator
from tests.support.factory.git_repo import plain_git
from tests.support.factory.local_fleet import FactoryHarness

SHORT_LEASES = {"AQ_LEASE_TTL": "3", "AQ_FLEET_LEASE_RENEW_SEC": "1"}
ENDS_WITHIN_S = 60.0


class CoordinatorHost:
    """A coordinator process that keeps its address."""

    def __init__(self, coordinator: RestartingCoordinator, api: httpx.AsyncClient) -> None:
        self._coordinator = coordinator
        self._api = api

    @property
    def url(self) -> str:
        """Return its address, which survives restarts."""
        return self._coordinator.process.url

    async def factory_token(self, factory_id: str, /) -> str:
        """Enroll a factory and return its token."""
        invited = (await self._api.post("/enrollments", json={"products": ["*"]})).json()
        request = {"secret": invited["secret"], "factoryId": factory_id}
        token: str = (await self._api.post("/factories/enroll", json=request)).json()["token"]
        return token


class ProcessHarness(FactoryHarness):
    """A harness whose coordinator and factories may be killed at any time."""

    def __init__(
        self,
        folder: Path,
        coordinator: RestartingCoordinator,
        api: httpx.AsyncClient,
        forks: ForkServer,
    ) -> None:
        super().__init__(folder, CoordinatorHost(coordinator, api), api)
        self.coordinator = coordinator
        self._forks = forks
        self._names: set[str] = set()
        # The factory's git keeps reflogs where a repo has them.
        plain_git(self.remote.path, "config", "core.logAllRefUpdates", "always")
        (self.remote.path / "logs").mkdir(exist_ok=True)

    async def enroll(self, name: str) -> Path:
        """Enroll a factory and return its data folder."""
        data = self.folder / f"disk-{name}"
        save_membership(
            self.data_dir(name), FleetMembership(self.server.url, name, await self.token(name))
        )
        self._names.add(name)
        return data

    async def start_factory(self, name: str, *, at: str, source: str = "stream") -> int:
        """Start `aq factory run` with a kill point and return its process id."""
        data = await self.enroll(name)
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
        command = ("factory", "run")
        child = await asyncio.to_thread(
            self._forks.start, *command, folder=data, environ=environ, at=at
        )
        assert child.first_line, self.process_log(name)
        return child.pid

    async def wait_for_exit(self, pid: int) -> int | None:
        """Wait for the end of a factory process and return its exit code."""
        return await asyncio.to_thread(self._forks.wait, pid, within_s=ENDS_WITHIN_S)

    def process_log(self, name: str) -> str:
        """Return the log of a factory process."""
        return (self.folder / f"disk-{name}" / "log").read_text(errors="replace")

    def branch_history(self, branch: str) -> list[str]:
        """Return every commit that a branch of the remote ever had, newest first."""
        arguments = ("reflog", "show", "--format=%H", f"refs/heads/{branch}", "--")
        return plain_git(self.remote.path, *arguments, check=False).split()

    def refs(self) -> Mapping[str, str]:
        """Return all refs of the remote."""
        output = plain_git(self.remote.path, "for-each-ref", "--format=%(refname) %(objectname)")
        return dict(line.split() for line in output.splitlines())

    async def kill_orphans(self) -> None:
        """Kill the orphans of dead factories."""
        for name in self._names:
            for run in run_registry.load_runs(self.data_dir(name)):
                await orphans.kill_orphans(run.mark)


@asynccontextmanager
async def a_process_harness(
    forks: ForkServer,
    folder: Path,
    *,
    settings: Mapping[str, str] = SHORT_LEASES,
    kill_points: Sequence[str] = (),
) -> AsyncIterator[ProcessHarness]:
    """Start a coordinator process, by default with short leases, and yield a harness."""
    home = folder / "coordinator"
    home.mkdir()
    coordinator = RestartingCoordinator(
        forks, home, settings=settings, kill_points=kill_points, keeps_port=True
    )
    async with running_coordinator(coordinator):
        headers = {"authorization": f"Bearer {coordinator.process.token}", "x-product-id": "notes"}
        base = coordinator.process.url + API
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=30) as api:
            harness = ProcessHarness(folder, coordinator, api, forks)
            try:
                yield harness
            finally:
                await harness.kill_orphans()
