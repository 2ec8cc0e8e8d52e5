"""A folder queue with a remote, and runners in this process or as `aq`."""

from collections.abc import Callable
from pathlib import Path

from gigafactory.config.settings import FactorySettings, FolderSettings
from gigafactory.domain.job.job import Job
from gigafactory.folder.queue.actions import FolderActionInput, act
from gigafactory.folder.queue.board import COLUMNS, Board
from gigafactory.folder.queue.record import JobRecord, events_of
from gigafactory.folder.queue.store import FolderQueue
from gigafactory.folder.runner import Runner, Summary
from gigafactory.system.ids import RandomIds
from gigafactory.wiring.folder_process import open_runner
from tests.services.aq import Shell
from tests.services.few_tools import search_path
from tests.support.factory.git_repo import Remote
from tests.support.factory.local_fleet import Clock

ENVIRON = {"PATH": search_path()}


class FolderHarness:
    """A user's queue with its remote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock()
        self.settings = FolderSettings()
        self.board = Board(folder / "queue")
        self.board.create()
        self.queue = self.reopen()
        self.remote = Remote(folder / "remote.git")
        self.remote.commit({"README.md": "Notes.\n"})

    def reopen(self) -> FolderQueue:
        """Open the queue again, as another process does."""
        return FolderQueue(self.board, self.clock, RandomIds())

    def drop(self, name: str, body: str, **manifest: str) -> Path:
        """Put a job file with a script and these settings into the inbox."""
        path = self.board.column("inbox") / f"{name}.md"
        settings = {"engine": "command"} | {k.replace("_", "-"): v for k, v in manifest.items()}
        lines = [f"{key}: {value}" for key, value in settings.items()]
        path.write_text("\n".join(["---", *lines, "---", body]) + "\n")
        return path

    def drop_repo_job(self, name: str, body: str, **manifest: str) -> Path:
        """Put a job file for the remote into the inbox."""
        return self.drop(name, body, repo=str(self.remote.path), **manifest)

    async def runner(
        self, jobs_max: int = 3, wanted: Callable[[Job], bool] = lambda _: True
    ) -> Runner:
        """Return a runner that has not started."""
        settings = FactorySettings(id="this", repos=self.folder, sandbox="none")
        return await open_runner(
            settings,
            self.reopen(),
            jobs_max,
            folder=self.settings,
            environ=ENVIRON,
            wanted=wanted,
        )

    async def run(self, jobs_max: int = 3) -> Summary:
        """Run all jobs that can run."""
        return await (await self.runner(jobs_max)).run(once=True)

    def record(self, name: str) -> JobRecord:
        """Return the record of a job."""
        with self.reopen().open() as session:
            return session.lookup(name)

    def job(self, name: str) -> Job:
        """Return a job."""
        return self.record(name).job

    def event_types(self, name: str) -> list[str]:
        """Return the types of a job's events."""
        return [event.type for event in events_of(self.board, self.record(name))]

    def act(self, name: str, action: str, **fields: object) -> Job:
        """Perform an action on a job as a person, at its current commit."""
        if action in {"approve", "ship", "promote"}:
            with self.queue.open() as desk:
                fields = {"commit": desk.lookup(name).job.head} | fields
        record = act(self.queue, name, action, "user:ada", FolderActionInput(**fields))  # type: ignore[arg-type]
        assert isinstance(record, JobRecord)
        return record.job

    def columns_of(self, name: str) -> list[str]:
        """Return the columns that have a file of this name."""
        return [c for c in COLUMNS if (self.board.column(c) / f"{name}.md").exists()]

    def log(self, name: str) -> str:
        """Return the log of a job."""
        path = self.board.log(self.record(name).key)
        return path.read_text() if path.exists() else ""

    @property
    def shell(self) -> Shell:
        """Return a shell in the folder."""
        settings = {"AQ_FACTORY_REPOS": str(self.folder), "AQ_FACTORY_SANDBOX": "none"}
        return Shell(self.board.root, settings | {"AQ_FACTORY_ID": "this"})
