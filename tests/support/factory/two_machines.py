"""A remote with branches of jobs, and garbage collection on two machines that share it."""

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
from tests.support.factory.git_repo import GitHarness, Remote, plain_git

NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(days=40)


class FakeJobStates:
    """Job states set by the test; all jobs ship by merge except the given ones."""

    def __init__(self) -> None:
        self.states: dict[str, JobState] = {}
        self.unmerged: set[str] = set()
        self.unavailable = False
        self.after_lookup: Callable[[], None] = lambda: None
        """Called after the next lookup."""

    def set_state(
        self, job_id: str, stage: Stage, *, head: str | None = None, since: datetime = NOW
    ) -> None:
        self.states[job_id] = JobState(stage=stage, since=since, head=head)

    async def look_up(self, job_ids: Collection[str]) -> Mapping[str, JobState]:
        if self.unavailable:
            raise Unavailable("it is away")
        found = {each: self.states[each] for each in job_ids if each in self.states}
        self.after_lookup()
        return found

    async def is_merged(self, job_id: str) -> bool:
        return job_id not in self.unmerged


class Machine:
    """One factory's data folder and mirrors."""

    def __init__(self, git_harness: GitHarness, name: str, job_states: FakeJobStates) -> None:
        self.git_harness = git_harness
        self.job_states = job_states
        self.data_dir = DataDir.under(git_harness.folder / name)
        self.data_dir.create()
        self.mirrors = Mirrors(self.data_dir.mirrors, git_harness.git)
        allowed = AllowedRemotes(folders=AllowedFolders(roots=(git_harness.folder / "server",)))
        self.repos = Repos(None, {}, ("*",), allowed)
        self.live: set[str] = set()

    @property
    def collector(self) -> GarbageCollector:
        return build_gc(
            self.data_dir,
            self.mirrors,
            self.repos,
            self.job_states,
            is_live=lambda job: job in self.live,
        )

    async def collect(self, *, dry_run: bool = False, at: datetime = NOW) -> GcReport:
        return await self.collector.collect(at, dry_run=dry_run)

    async def mirror(self) -> Mirror:
        return await self.mirrors.open(self.git_harness.address)

    async def worktree(self, job_id: str, commit: str) -> Worktree:
        """Return the worktree of a job, in use until it is closed."""
        return await Worktree.add(await self.mirror(), self.data_dir.worktree(job_id), commit)

    def register_run(self, job_id: str, repo: str | None) -> None:
        """Register a run of this job as possibly still running."""
        run = run_registry.RegisteredRun(
            run_id=f"{job_id}.1", job_id=job_id, epoch=1, mark="none", repo=repo
        )
        run_registry.register(self.data_dir, run)


class GcHarness:
    """A remote, the states of its jobs, and two machines."""

    def __init__(self, folder: Path) -> None:
        self.git_harness = GitHarness(folder)
        self.job_states = FakeJobStates()
        self.base = self.remote.commit({"README.md": "Notes.\n"})
        self.one = Machine(self.git_harness, "one", self.job_states)
        self.two = Machine(self.git_harness, "two", self.job_states)

    @property
    def remote(self) -> Remote:
        return self.git_harness.remote

    def deliver(self, job_id: str) -> str:
        """Push the branches of a finished job and return its commit."""
        self.remote.commit({f"{job_id}.txt": "half\n"}, branch=f"aq/wip/{job_id}/1")
        return self.remote.commit({f"{job_id}.txt": "whole\n"}, branch=f"aq/job/{job_id}")

    def squash(self, job_id: str, *, with_trailers_of_job: bool) -> None:
        """Squash the work of a job into main, with or without its trailers."""
        trailers = (
            run_trailers(job=job_id, run=f"{job_id}.1", engine=None, epoch=1)
            if with_trailers_of_job
            else {}
        )
        self.remote.commit({f"{job_id}.txt": "whole\n"})
        clone = self.remote.path.with_suffix(".person")
        plain_git(clone, "commit", "-q", "--amend", "-m", with_trailers("Squashed", trailers))
        plain_git(clone, "push", "-q", "-f", "origin", "HEAD:refs/heads/main")

    def merge(self, job_id: str) -> None:
        """Merge the work of a job into main."""
        clone = self.remote.path.with_suffix(".person")
        plain_git(clone, "fetch", "-q", "origin")
        plain_git(clone, "checkout", "-q", "--detach", "origin/main")
        plain_git(clone, "merge", "-q", "--no-ff", "-m", "Merge", f"origin/aq/job/{job_id}")
        plain_git(clone, "push", "-q", "origin", "HEAD:refs/heads/main")

    def job_branches(self) -> list[str]:
        """Return the branches of jobs at the remote."""
        return [name for name in self.remote.branches() if name.startswith("aq/")]


def lines_of_kind(sweep: GcReport, kind: str) -> list[str]:
    return [str(each) for each in sweep.swept if each.kind == kind]
