"""The folders in which the factory looks for the programs that it starts itself."""

import os


def absolute_search_path(path: str) -> str:
    """Return a PATH without relative entries: they would let a worktree bring its own programs."""
    return os.pathsep.join(each for each in path.split(os.pathsep) if os.path.isabs(each))  # noqa: PTH117 - parts of a PATH
