"""The rules of style that no linter knows, over every file of the repository."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "gigafactory"

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70

# Where an error of any kind is logged and survived: the shared loop, and the edges of a process.
# A thread and a run are edges too: whatever happens there is told to whoever asked.
CATCH_ALLS = frozenset(
    {
        "system/loops.py",
        "cli/main.py",
        "store/group_commit.py",
        "store/sqlite/commit_sync.py",
        "factory/executor.py",
    }
)

# Made by tools, or not ours to write.
SKIPPED = re.compile(
    r"\.git|\.venv.*|\..*_cache|\.hypothesis|\.schemathesis|__pycache__|dist|results"
)
TEXTS = frozenset(
    {"", ".css", ".html", ".js", ".md", ".py", ".sh", ".sql", ".toml", ".yaml", ".yml"}
)

UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
SOMEBODYS_HOME = re.compile(r"(?<![\w.~])/(?:root|home/(?!(?:me|user|you)\b)\w+|Users/\w+)/")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def files(folder: Path = ROOT) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if SKIPPED.fullmatch(path.name):
            continue
        if path.is_dir():
            yield from files(path)
        elif path.suffix in TEXTS and path.name != ".coverage":
            yield path


def modules(folder: Path = ROOT) -> Iterator[tuple[str, ast.Module]]:
    for path in files(folder):
        if path.suffix == ".py":
            yield str(path.relative_to(folder)), ast.parse(path.read_text())


def lines_of(function: Function) -> int:
    """How long a function is, its docstring apart."""
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return length
    docstring = function.body[0]
    return length - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def catches_all(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(
        isinstance(node, ast.Name) and node.id in {"Exception", "BaseException"}
        for node in ast.walk(handler.type)
    )


def found(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_file_is_longer_than_a_subject_needs() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in files()
        if path.suffix in {".py", ".sql", ".js"}
    }
    assert {name: length for name, length in lengths.items() if length > FILE_LINES_MAX} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    lengths = {
        f"{name}:{node.name}": lines_of(node)
        for name, module in modules(SOURCES)
        for node in ast.walk(module)
        if isinstance(node, Function)
    }
    assert {name: length for name, length in lengths.items() if length > FUNCTION_LINES_MAX} == {}


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name, module in modules() if not ast.get_docstring(module)] == []


def test_nothing_is_left_for_later() -> None:
    assert found(UNFINISHED) == []


def test_only_the_loops_and_the_edges_catch_everything() -> None:
    catching = {
        f"{name}:{node.lineno}"
        for name, module in modules(SOURCES)
        if name not in CATCH_ALLS
        for node in ast.walk(module)
        if isinstance(node, ast.ExceptHandler) and catches_all(node)
    }
    assert catching == set()


def test_no_file_names_a_place_on_somebody_s_machine() -> None:
    assert found(SOMEBODYS_HOME) == []
    # A checkout at the top of the disk has too short a name to tell from an ordinary path.
    if len(ROOT.parts) > 2:
        assert found(re.compile(re.escape(f"{ROOT}/"))) == []


def test_the_locks_name_no_address() -> None:
    locks = sorted((ROOT / "requirements").glob("*.lock"))
    assert locks
    assert [lock.name for lock in locks if "://" in lock.read_text()] == []
