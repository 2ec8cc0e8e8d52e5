"""Match repo paths against the globs of a job's scope, in time linear in both."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

FOLDERS: Final = "**/"
"""Any number of folders, also none."""
SPAN: Final = "**"
WILD: Final = (FOLDERS, SPAN, "*", "?")


def matches_any(path: str, globs: Iterable[str]) -> bool:
    """Return whether a path matches any of the globs.

    `*` and `?` stay within one name, `**` spans folders, and a glob that names a folder includes
    its content. A glob without a slash matches that name in any folder.
    """
    return any(_matcher(glob).matches(path) for glob in globs)


def paths_outside(paths: Iterable[str], globs: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that match none of the globs."""
    allowed = tuple(globs)
    return tuple(path for path in paths if not matches_any(path, allowed))


class _Matcher:
    """A glob as a non-deterministic automaton: bit i is set while tokens before i have matched.

    Each character of a path moves all bits at once. A regular expression would try one way after
    the other, and take exponential time for `**/**/**/x`.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self._literals: dict[str, int] = defaultdict(int)
        self._any = self._name = self._loops = self._skips = self._folders = 0
        at = 0
        for token in tokens:
            here = 1 << at
            match token:
                case "**/":
                    # Two states: before it, and within the folders, which only a slash leaves.
                    self._folders |= here
                    self._loops |= here << 1
                    self._literals["/"] |= here << 1
                    at += 1
                case "**":
                    self._loops |= here
                    self._skips |= here
                case "*":
                    self._name |= here
                    self._skips |= here
                case "?":
                    self._any |= here
                case _:
                    self._literals[token] |= here
            at += 1
        self._end = 1 << at

    def matches(self, path: str) -> bool:
        """Return whether a whole path, or a folder that contains it, matches."""
        states = self._skipped(1)
        for char in path:
            if char == "/":
                if states & self._end:
                    return True
                moved, stayed = 0, states & self._loops
            else:
                moved, stayed = states & self._any, states & (self._loops | self._name)
            moved |= states & self._literals.get(char, 0)
            states = self._skipped(moved << 1 | stayed)
            if not states:
                return False
        return bool(states & self._end)

    def _skipped(self, states: int) -> int:
        """Add the states that are reached without a character."""
        entered = states & self._folders
        states |= entered << 1 | entered << 2
        return states | (states & self._skips) << 1


@lru_cache(maxsize=1024)
def _matcher(glob: str) -> _Matcher:
    plain = glob.strip().removeprefix("./").removeprefix("/").rstrip("/")
    anchored = "/" in glob.strip().removeprefix("./").rstrip("/")
    start = [] if anchored or plain == SPAN else [FOLDERS]
    return _Matcher(_merged([*start, *_tokens(plain)]))


def _tokens(glob: str) -> Iterator[str]:
    """Split a glob into wildcards and single characters."""
    at = 0
    while at < len(glob):
        token = next((wild for wild in WILD if glob.startswith(wild, at)), glob[at])
        yield token
        at += len(token)


def _merged(tokens: Iterable[str]) -> list[str]:
    """Merge adjacent wildcards, so that at most two are skipped in a row: `**/` and then `*`."""
    merged: list[str] = []
    for token in tokens:
        last = merged[-1] if merged else ""
        if token in {FOLDERS, SPAN, "*"} and last == SPAN:
            continue
        if token == SPAN and last == FOLDERS:
            merged[-1] = SPAN
        elif not token == last == FOLDERS:
            merged.append(token)
    return merged
