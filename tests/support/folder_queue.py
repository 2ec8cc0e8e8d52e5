"""A queue in a folder, a remote beside it, and runners: in this process, or as `aq` itself."""

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


class Place:
    """A user's queue."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock()
        self.settings = FolderSettings()
        self.board = Board(folder / "queue")
        self.board.create()
        self.queue = self.opened()
        self.remote = Remote(folder / "remote.git")
        self.remote.commit({"README.md": "Notes.\n"})

    def opened(self) -> FolderQueue:
        """The queue as another process would open it."""
        return FolderQueue(self.board, self.clock, RandomIds())

    def drop(self, name: str, body: str, **manifest: str) -> Path:
        """Put a file into the inbox: a script, and settings as they are written."""
        path = self.board.column("inbox") / f"{name}.md"
        settings = {"engine": "command"} | {k.replace("_", "-"): v for k, v in manifest.items()}
        lines = [f"{key}: {value}" for key, value in settings.items()]
        path.write_text("\n".join(["---", *lines, "---", body]) + "\n")
        return path

    def drop_work(self, name: str, body: str, **manifest: str) -> Path:
        """The same for a job in the remote."""
        return self.drop(name, body, repo=str(self.remote.path), **manifest)

    async def runner(
        self, jobs_max: int = 3, wanted: Callable[[Job], bool] = lambda _: True
    ) -> Runner:
        """A runner that has not begun."""
        settings = FactorySettings(id="this", repos=self.folder, sandbox="none")
        return await open_runner(
            settings,
            self.opened(),
            jobs_max,
            folder=self.settings,
            environ=ENVIRON,
            wanted=wanted,
        )

    async def run(self, jobs_max: int = 3) -> Summary:
        """Do everything that can be done."""
        return await (await self.runner(jobs_max)).run(once=True)

    def kept(self, name: str) -> JobRecord:
        """What is known of a job."""
        with self.opened().open() as desk:
            return desk.lookup(name)

    def job(self, name: str) -> Job:
        """A job as it is now."""
        return self.kept(name).job

    def story(self, name: str) -> list[str]:
        """The types of a job's events."""
        return [event.type for event in events_of(self.board, self.kept(name))]

    def act(self, name: str, action: str, **wish: object) -> Job:
        """A person decides something, at the commit that the job shows."""
        if action in {"approve", "ship", "promote"}:
            with self.queue.open() as desk:
                wish = {"commit": desk.lookup(name).job.head} | wish
        done = act(self.queue, name, action, "user:ada", FolderActionInput(**wish))  # type: ignore[arg-type]
        assert isinstance(done, JobRecord)
        return done.job

    def where(self, name: str) -> list[str]:
        """The columns that have a file of this name."""
        return [c for c in COLUMNS if (self.board.column(c) / f"{name}.md").exists()]

    def log(self, name: str) -> str:
        """What a job has printed."""
        path = self.board.log(self.kept(name).key)
        return path.read_text() if path.exists() else ""

    @property
    def shell(self) -> Shell:
        """A terminal in the folder."""
        settings = {"AQ_FACTORY_REPOS": str(self.folder), "AQ_FACTORY_SANDBOX": "none"}
        return Shell(self.board.root, settings | {"AQ_FACTORY_ID": "this"})
