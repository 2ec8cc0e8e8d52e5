"""The mirrors on this machine, with the URLs of their remotes as far as they are known."""

from collections.abc import Callable, Iterable
from pathlib import Path

from gigafactory.domain.errors import Refused
from gigafactory.factory.git import mirror_metadata as mirror_notes
from gigafactory.factory.git.mirror import Mirror, Mirrors
from gigafactory.factory.git.repos import Repos
from gigafactory.factory.run.run_registry import RegisteredRun

REMOVED = ".old"


class MirrorIndex:
    """Mirrors that earlier runs have created."""

    def __init__(
        self, mirrors: Mirrors, repos: Repos, live: Callable[[], Iterable[RegisteredRun]]
    ) -> None:
        """`live` returns the runs that are, or may be, active here."""
        self._mirrors = mirrors
        self._repos = repos
        self._live = live

    def folders(self) -> list[Path]:
        """Return the folders of all mirrors."""
        return self._mirrors.folders()

    def half_removed(self) -> list[Path]:
        """Return folders that an interrupted collection renamed but did not delete."""
        return self._mirrors.folders(REMOVED)

    def all(self) -> list[Mirror]:
        """Return the mirrors whose remotes we may contact."""
        mirrors = (self.mirror(folder) for folder in self.folders())
        return [mirror for mirror in mirrors if mirror is not None]

    def mirror(self, folder: Path) -> Mirror | None:
        """Return the mirror in a folder; None if its URL is unknown or no longer allowed."""
        url = mirror_notes.url_of(folder)
        if url is None:
            return None
        try:
            return self._mirrors.mirror_at(folder, self._repos.known_address(url))
        except Refused:
            return None

    def may_be_in_use(self, folder: Path) -> bool:
        """Return whether an active run could use this mirror, now or soon."""
        url = mirror_notes.url_of(folder)
        return url is not None and any(self._may_mean(run, url) for run in self._live())

    def _may_mean(self, run: RegisteredRun, url: str) -> bool:
        if run.repo is None:
            # The run has no repo, or that of the folder in which it works.
            return url.startswith("/")
        try:
            return self._repos.address(run.repo).url == url
        except Refused:
            return True
