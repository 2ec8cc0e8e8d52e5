"""A remote with jobs on it, and the housekeeping of one or two machines that share it."""

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gigafactory.domain.errors import Unavailable
from gigafactory.domain.job.job import Stage
from gigafactory.factory.core.allowed_folders import AllowedFolders
from gigafactory.factory.core.data_dir import DataDir
from gigafactory.factory.gc.gc import GarbageCollector
from gigafactory.factory.gc.job_status import JobState
from gigafactory.factory.gc.report import GcReport
from gigafactory.factory.git.commits import run_trailers, with_trailers
from gigafactory.factory.git.mirror import Mirror, Mirrors
from gigafactory.factory.git.remote_url import AllowedRemotes
from gigafactory.factory.git.repos import Repos
from gigafactory.factory.git.worktree import Worktree
from gigafactory.factory.run import run_registry
from gigafactory.wiring.gc import build_gc
from tests.support.factory.git_repo import Remote, World, plain_git

NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(days=40)


class ToldFates:
    """Jobs as the test says they are; all of them ship by merge, but for those named."""

    def __init__(self) -> None:
        self.fates: dict[str, JobState] = {}
        self.apart: set[str] = set()
        self.away = False
        self.then: Callable[[], None] = lambda: None
        """What happens after the next answer."""

    def say(
        self, job_id: str, stage: Stage, *, head: str | None = None, since: datetime = NOW
    ) -> None:
        self.fates[job_id] = JobState(stage=stage, since=since, head=head)

    async def look_up(self, job_ids: Collection[str]) -> Mapping[str, JobState]:
        if self.away:
            raise Unavailable("it is away")
        told = {each: self.fates[each] for each in job_ids if each in self.fates}
        self.then()
        return told

    async def is_merged(self, job_id: str) -> bool:
        return job_id not in self.apart


class Machine:
    """One factory's places and mirrors."""

    def __init__(self, world: World, name: str, fates: ToldFates) -> None:
        self.world = world
        self.fates = fates
        self.data_dir = DataDir.under(world.folder / name)
        self.data_dir.create()
        self.mirrors = Mirrors(self.data_dir.mirrors, world.git)
        allowed = AllowedRemotes(folders=AllowedFolders(roots=(world.folder / "server",)))
        self.repos = Repos(None, {}, ("*",), allowed)
        self.live: set[str] = set()

    @property
    def collector(self) -> GarbageCollector:
        return build_gc(
            self.data_dir,
            self.mirrors,
            self.repos,
            self.fates,
            is_live=lambda job: job in self.live,
        )

    async def sweep(self, *, dry_run: bool = False, at: datetime = NOW) -> GcReport:
        return await self.collector.collect(at, dry_run=dry_run)

    async def mirror(self) -> Mirror:
        return await self.mirrors.open(self.world.address)

    async def worktree(self, job_id: str, commit: str) -> Worktree:
        """The workspace of a job, in use until it is closed."""
        return await Worktree.add(await self.mirror(), self.data_dir.worktree(job_id), commit)

    def note(self, job_id: str, repo: str | None) -> None:
        """A run of this job may go on here."""
        run = run_registry.RegisteredRun(
            run_id=f"{job_id}.1", job_id=job_id, epoch=1, mark="none", repo=repo
        )
        run_registry.register(self.data_dir, run)


class JobsOnARemote:
    """A remote, what is known of its jobs, and two machines."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.fates = ToldFates()
        self.base = self.remote.commit({"README.md": "Notes.\n"})
        self.one = Machine(self.world, "one", self.fates)
        self.two = Machine(self.world, "two", self.fates)

    @property
    def remote(self) -> Remote:
        return self.world.remote

    def result(self, job_id: str) -> str:
        """A job has delivered; its branches are at the remote."""
        self.remote.commit({f"{job_id}.txt": "half\n"}, branch=f"aq/wip/{job_id}/1")
        return self.remote.commit({f"{job_id}.txt": "whole\n"}, branch=f"aq/job/{job_id}")

    def squash(self, job_id: str, *, told: bool) -> None:
        """Bring the work of a job into main as another commit, which may say whose it is."""
        words = run_trailers(job=job_id, run=f"{job_id}.1", engine=None, epoch=1) if told else {}
        self.remote.commit({f"{job_id}.txt": "whole\n"})
        clone = self.remote.path.with_suffix(".person")
        plain_git(clone, "commit", "-q", "--amend", "-m", with_trailers("Squashed", words))
        plain_git(clone, "push", "-q", "-f", "origin", "HEAD:refs/heads/main")

    def merge(self, job_id: str) -> None:
        """Bring the work of a job into main as it is."""
        clone = self.remote.path.with_suffix(".person")
        plain_git(clone, "fetch", "-q", "origin")
        plain_git(clone, "checkout", "-q", "--detach", "origin/main")
        plain_git(clone, "merge", "-q", "--no-ff", "-m", "Merge", f"origin/aq/job/{job_id}")
        plain_git(clone, "push", "-q", "origin", "HEAD:refs/heads/main")

    def ours(self) -> list[str]:
        """The branches of jobs at the remote."""
        return [name for name in self.remote.branches() if name.startswith("aq/")]


def lines(sweep: GcReport, kind: str) -> list[str]:
    return [str(each) for each in sweep.swept if each.kind == kind]
