"""No regular expression and no parser takes more than linear time.

Both are found in the source. A new parser needs a row in `tests/support/parsers.py`.
"""

import ast
import contextlib
import importlib
import itertools
import pkgutil
import re
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import pytest

import gigafactory
from tests.support.parsers import EXEMPT, PARSERS, PUMPS, REACHED, REFUSALS, SEEDS, Parser
from tests.support.regex_attack import SUSPICIOUS_S, grows_too_fast, seconds, worst_case

SOURCE = Path(gigafactory.__file__).parent
PARSER = re.compile(r"(?:parse|decode|strip|split|matches|redact)(?:_\w+)?")
"""Names of functions that parse untrusted input."""
SLOW = {
    *("difflib", "get_close_matches", "SequenceMatcher", "shlex", "fnmatch", "fnmatchcase"),
    *("CronSim", "strptime", "normalize", "safe_load", "safe_dump", "parse_qsl", "literal_eval"),
}
"""Names of functions and modules that take long, or raise, on odd texts."""
BUILDERS = {"failure_patterns", "__init__"}
"""Functions whose compiled patterns become constants of their module."""
SIZE = 4000
METHODS = {"match", "fullmatch", "search", "findall", "finditer", "sub", "subn", "split"}


@cache
def modules() -> dict[str, ast.Module]:
    names = (found.name for found in pkgutil.walk_packages(gigafactory.__path__, "gigafactory."))
    return {
        name: ast.parse(Path(importlib.import_module(name).__file__ or "").read_text())
        for name in names
        if not name.endswith("__main__")
    }


def patterns_in(name: str, value: object, depth: int = 0) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield every pattern in a constant of a module, with its name."""
    if isinstance(value, re.Pattern):
        yield name, value
    elif depth < 3 and isinstance(value, list | tuple | frozenset | set):
        for number, each in enumerate(value):
            yield from patterns_in(f"{name}[{number}]", each, depth + 1)
    elif depth < 3 and isinstance(value, dict):
        for key, each in value.items():
            yield from patterns_in(f"{name}[{key!r}]", each, depth + 1)
    elif depth < 3 and type(value).__module__.startswith("gigafactory."):
        yield from patterns_in(name, getattr(value, "__dict__", {}), depth + 1)


@cache
def patterns() -> dict[str, re.Pattern[str]]:
    found: dict[re.Pattern[str], str] = {}
    for module in modules():
        for name, value in vars(importlib.import_module(module)).items():
            for place, pattern in patterns_in(name, value):
                found.setdefault(pattern, f"{module.removeprefix('gigafactory.')}:{place}")
    return {place: pattern for pattern, place in found.items()}


@cache
def uses() -> dict[str, set[str]]:
    """Return the methods that the source calls on each name."""
    found: dict[str, set[str]] = {}
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                name = getattr(node.value, "id", getattr(node.value, "attr", None))
                found.setdefault(str(name), set()).add(node.attr)
    return found


@pytest.mark.parametrize("place", patterns())
def test_a_regular_expression_takes_linear_time(place: str) -> None:
    # The calls on a pattern in a list or an object are unknown: assume a search.
    methods = uses().get(place.rpartition(":")[2], {"search"})
    found = worst_case(patterns()[place], {"findall" if m in UNANCHORED else m for m in methods})
    assert found is None, f"{place} backtracks on {found}"


UNANCHORED = {"findall", "finditer", "sub", "subn", "split"}


def test_every_regular_expression_is_a_constant_that_is_found_here() -> None:
    inline = [
        f"{name}:{call.lineno}"
        for name, tree in modules().items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and function.name not in BUILDERS
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "re"
        and call.func.attr in {*METHODS, "compile"}
    ]
    assert not inline, "make it a constant of its module"
    assert len(patterns()) > 150


def parsers_in_the_tree() -> set[str]:
    return {
        f"{name.removeprefix('gigafactory.')}:{node.name}"
        for name, tree in modules().items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and PARSER.fullmatch(node.name)
    }


def test_every_parser_is_attacked_or_has_a_reason_not_to_be() -> None:
    known = PARSERS.keys() | EXEMPT.keys()
    assert parsers_in_the_tree() - known == set(), "add a row to tests/support/parsers.py"
    assert EXEMPT.keys() - parsers_in_the_tree() == set(), "these are gone"


def functions(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions and methods of a module with their names; inner ones are part of them."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield owner + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{owner}{node.name}.")


def users_of_slow_libraries() -> set[str]:
    return {
        f"{module.removeprefix('gigafactory.')}:{name}"
        for module, tree in modules().items()
        for name, function in functions(tree.body)
        if not SLOW.isdisjoint(
            getattr(node, "id", getattr(node, "attr", None)) for node in ast.walk(function)
        )
    }


def test_every_user_of_a_slow_library_is_attacked_whatever_its_name() -> None:
    known = PARSERS.keys() | REACHED.keys()
    assert users_of_slow_libraries() - known == set(), "add a row to tests/support/parsers.py"
    assert REACHED.keys() - users_of_slow_libraries() == set(), "these are gone"


@pytest.mark.parametrize("place", PARSERS)
def test_a_parser_takes_linear_time(place: str) -> None:
    # Try each pump alone and after one seed only: all pairs would take a minute.
    seeds = itertools.cycle(SEEDS)
    for seed, pump in [*((b"", pump) for pump in PUMPS), *zip(seeds, PUMPS * 2, strict=False)]:
        run = partial(parse, PARSERS[place], seed, pump)
        slow = seconds(run, SIZE) > SUSPICIOUS_S and grows_too_fast(run, SIZE)
        assert not slow, f"{seed!r} + {pump!r} * n"


def parse(parser: Parser, seed: bytes, pump: bytes, size: int) -> None:
    with contextlib.suppress(*REFUSALS):
        parser(seed + pump * (size // len(pump)))


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(a+)+b", "match"),
        (r"(?:a|aa)*b", "fullmatch"),
        (r"\s{0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*", "fullmatch"),
        (r'message="stream error".* error\.error="(?:\w+: )?([^"]*)"', "search"),
        (r"(?:.*/)?(?:.*/)?(?:.*/)?(?:.*/)?x", "fullmatch"),
    ],
)
def test_a_slow_regular_expression_is_found(pattern: str, method: str) -> None:
    assert worst_case(re.compile(pattern), {method}) is not None


def test_growth_is_told_from_size() -> None:
    assert not grows_too_fast(lambda size: sum(range(size * 20)), 5000)
    assert grows_too_fast(lambda size: [sum(range(size)) for _ in range(size // 50)], 5000)
