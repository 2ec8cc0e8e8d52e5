"""Attack regular expressions with strings derived from their parse trees."""

import re
import time
from collections.abc import Callable, Iterator
from re import _parser
from typing import Any

REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
UNBOUNDED = 64
"""A repetition of at least this many counts as unbounded."""
SUSPICIOUS_S = 0.002
"""A linear search of SMALL characters takes a tenth of this."""
SMALL, GROWTH = 6_000, 4
RATIO_MAX = 8.0
"""Four times the input: a linear search takes 4 times as long, a quadratic one 16 times."""
CLASSES = {"CATEGORY_DIGIT": "7", "CATEGORY_WORD": "w", "CATEGORY_SPACE": " "}
OTHER = "\x01"
"""A character that no pattern matches literally."""

Tree = Any
"""A sub-pattern of the private parser of `re`."""


def worst_case(pattern: re.Pattern[Any], methods: set[str]) -> str | None:
    """Return a description of an input on which the pattern is slower than linear, or None."""
    for method in methods:
        run = getattr(pattern, method)
        for prefix, pump, suffix in attacks(pattern):
            if is_superlinear(run, prefix, pump, suffix, text=isinstance(pattern.pattern, str)):
                return f"{method}: {prefix!r} + {pump!r} * n + {suffix!r}"
    return None


def is_superlinear(
    run: Callable[[Any], object], prefix: str, pump: str, suffix: str, *, text: bool
) -> bool:
    """Return whether the time of a search grows faster than its input."""

    def search(size: int) -> object:
        written = prefix + pump * (size // len(pump)) + suffix
        return run(written if text else written.encode("latin-1", "replace"))

    # Small sizes first: an exponential search of the large one would never end.
    for size in (12, 16, 20, 24, 100, 600):
        if seconds(search, size) > SUSPICIOUS_S:
            return min(seconds(search, size) for _ in range(3)) > SUSPICIOUS_S
    # A long pump has fewer places to begin at.
    small = SMALL * min(len(pump), 4)
    return seconds(search, small) > SUSPICIOUS_S and grows_too_fast(search, small)


def grows_too_fast(run: Callable[[int], object], small: int) -> bool:
    """Return whether an input of four times the size takes more than eight times as long."""
    least = min(seconds(run, small) for _ in range(3))
    most = min(seconds(run, small * GROWTH) for _ in range(2))
    return most > max(least, SUSPICIOUS_S / 10) * RATIO_MAX and most > SUSPICIOUS_S


def seconds(run: Callable[[int], object], size: int) -> float:
    """Return the processor time that this thread takes."""
    began = time.thread_time()
    run(size)
    return time.thread_time() - began


def attacks(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield prefix, pump and suffix of hostile inputs; none for a pattern of bounded length."""
    written: str | bytes = pattern.pattern
    source = written if isinstance(written, str) else written.decode("latin-1")
    tree = _parser.parse(
        source, pattern.flags & (re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE)
    )
    letters = list(dict.fromkeys([*_letters(tree), OTHER]))
    places = list(dict.fromkeys(_repeats(tree, "")))
    if not places:
        return
    whole = _example(tree)
    for prefix, body in places:
        pumps = dict.fromkeys([body, prefix, whole, *letters])
        for pump in filter(None, pumps):
            for suffix in dict.fromkeys(("", OTHER, "\n", *letters[:2])):
                yield prefix, pump, suffix
                yield "", pump, suffix


def _repeats(tree: Tree, before: str) -> Iterator[tuple[str, str]]:
    """Yield an example of the text before each unbounded repetition, and one of its body."""
    for op, given in tree:
        name = str(op)
        if name in REPEATS:
            _, most, body = given
            if most >= UNBOUNDED:
                yield before, _example(body)
            yield from _repeats(body, before)
        else:
            for inner in _inner(name, given):
                yield from _repeats(inner, before)
        before += _example([(op, given)])


def _inner(name: str, given: Any) -> list[Tree]:  # noqa: ANN401 - depends on the operator
    match name:
        case "SUBPATTERN":
            return [given[-1]]
        case "BRANCH":
            return list(given[1])
        case "ATOMIC_GROUP":
            return [given]
        case "ASSERT" | "ASSERT_NOT":
            return [given[1]]
        case _:
            return []


def _example(tree: Tree) -> str:
    """Return a text that the tree matches, ignoring its assertions."""
    found = ""
    for op, given in tree:
        name = str(op)
        if name == "LITERAL":
            found += chr(given)
        elif name == "NOT_LITERAL":
            found += "x" if given != ord("x") else "y"
        elif name == "ANY":
            found += "x"
        elif name == "IN":
            found += _member(given)
        elif name in REPEATS:
            found += _example(given[2]) * max(1, given[0])
        elif name == "BRANCH":
            found += _example(given[1][0])
        elif name in {"SUBPATTERN", "ATOMIC_GROUP"}:
            found += _example(_inner(name, given)[0])
    return found


def _member(choices: Any) -> str:  # noqa: ANN401 - depends on the operator
    if str(choices[0][0]) == "NEGATE":
        excluded = {chr(v) for op, v in choices[1:] if str(op) == "LITERAL"}
        return next(char for char in "xy z09" if char not in excluded)
    op, given = choices[0]
    match str(op):
        case "LITERAL":
            return chr(given)
        case "RANGE":
            return chr(given[0])
        case _:
            return CLASSES.get(str(given), "-")


def _letters(tree: Tree) -> Iterator[str]:
    """Yield a character for each literal and set of the tree."""
    for op, given in tree:
        name = str(op)
        if name == "LITERAL":
            yield chr(given)
        elif name in {"ANY", "NOT_LITERAL"}:
            yield "x"
        elif name == "IN":
            yield _member(given)
        elif name in REPEATS:
            yield from _letters(given[2])
        else:
            for inner in _inner(name, given):
                yield from _letters(inner)
