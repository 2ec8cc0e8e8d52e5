"""What a repo brings along for an engine: who can push to it must not have programs run by it."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from gigafactory.domain.errors import Forbidden


def found_in(worktree: Path, names: Iterable[str]) -> tuple[Path, ...]:
    """Those of the names that are there.

    Raises Forbidden for one that is reached through a link: where that leads is another matter for
    the engine than for us.
    """
    return tuple(_found(worktree, names))


def _found(worktree: Path, names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        path = worktree / name
        steps = (path, *path.parents[: len(Path(name).parts) - 1])
        if any(step.is_symlink() for step in steps):
            raise Forbidden(
                f"{name} of the repo is a link, or behind one; the engine would take its settings"
                " from there: make it a plain file or folder, or remove it"
            )
        if path.exists():
            yield path
