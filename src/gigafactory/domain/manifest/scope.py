"""Match repo paths against the globs of a job's scope."""

import re
from collections.abc import Iterable
from functools import lru_cache


def matches_any(path: str, globs: Iterable[str]) -> bool:
    """Return whether a path matches any of the globs.

    `*` and `?` stay within one name, `**` spans folders, and a glob that names a folder includes
    its content. A glob without a slash matches that name in any folder.
    """
    return any(_pattern(glob).fullmatch(path) for glob in globs)


def paths_outside(paths: Iterable[str], globs: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that match none of the globs."""
    allowed = tuple(globs)
    return tuple(path for path in paths if not matches_any(path, allowed))


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    plain = glob.strip().removeprefix("./").removeprefix("/").rstrip("/")
    anchored = "/" in glob.strip().removeprefix("./").rstrip("/")
    start = "" if anchored or plain == "**" else r"(?:.*/)?"
    return re.compile(start + _translate(plain) + r"(?:/.*)?", re.DOTALL)


def _translate(glob: str) -> str:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    wild = {"**/": r"(?:.*/)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    return "".join(wild.get(part, re.escape(part)) for part in parts)
