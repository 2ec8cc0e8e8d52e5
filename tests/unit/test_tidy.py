"""Style rules that no linter checks, applied to every file of the repository."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.simulation.mutants import MUTANTS
from tests.support.crash.factory_kill_points import REPLACED

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "gigafactory"

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
FOLDER_MODULES_MAX = 20

# Function names that do not say what the function does.
RIDDLES = frozenset({"told", "shown", "begun", "kept"})
# Words that make a sentence hard to read; the pattern is split so that it does not find itself.
ARCHAIC = re.compile(r"\b(?:who" r"(?:m?ever)|a" r"new|of " r"old|de" r"ar)\b", re.IGNORECASE)

# Modules that may catch every error: the shared loop, and the boundaries of a process.
# Threads and runs are boundaries too: their errors are reported to the caller.
CATCH_ALLS = frozenset(
    {
        "system/loops.py",
        "cli/main.py",
        "coordinator/tracker/ticket_importer.py",
        "folder/queue/intake.py",
        "folder/tickets.py",
        "server/inbox.py",
        "store/group_commit.py",
        "store/sqlite/commit_sync.py",
        "factory/executor.py",
    }
)

# Generated or third-party files.
SKIPPED = re.compile(
    r"\.git|\.venv.*|\..*_cache|\.hypothesis|\.schemathesis|__pycache__|dist|results"
)
TEXTS = frozenset(
    {"", ".css", ".html", ".js", ".md", ".py", ".sh", ".sql", ".toml", ".yaml", ".yml"}
)

UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
HOME_FOLDER = re.compile(r"(?<![\w.~])/(?:root|home/(?!(?:me|user|you)\b)\w+|Users/\w+)/")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def files(folder: Path = ROOT) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if SKIPPED.fullmatch(path.name):
            continue
        if path.is_dir():
            yield from files(path)
        elif path.suffix in TEXTS and path.name != ".coverage":
            yield path


@cache
def parsed() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in files() if path.suffix == ".py"}


def modules(folder: Path = ROOT) -> list[tuple[str, ast.Module]]:
    return [
        (str(path.relative_to(folder)), module)
        for path, module in parsed().items()
        if path.is_relative_to(folder)
    ]


def lines_of(function: Function) -> int:
    """Return the number of lines of a function without its docstring."""
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
        if pattern.search(text := path.read_text())
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_file_exceeds_the_line_limit() -> None:
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


def test_no_source_folder_exceeds_the_module_limit() -> None:
    sizes = Counter(Path(name).parent for name, _ in modules(SOURCES))
    sizes.subtract(
        Path(name).parent for name, _ in modules(SOURCES) if name.endswith("__init__.py")
    )
    assert {folder: size for folder, size in sizes.items() if size > FOLDER_MODULES_MAX} == {}


def test_every_module_is_in_a_package_of_its_layer() -> None:
    assert [path.name for path in SOURCES.glob("*.py")] == ["__init__.py"]


def test_readmes_name_all_packages_that_their_package_imports() -> None:
    unnamed = {
        f"{room.name} imports {other}"
        for room in SOURCES.iterdir()
        if (room / "README.md").exists()
        for other in imported_rooms(room)
        if not may_import((room / "README.md").read_text(), other)
    }
    assert unnamed == set()


def imported_rooms(room: Path) -> set[str]:
    """Return the top packages that the modules of a top package import."""
    names = {
        node.module.split(".")[1]
        for _, module in modules(room)
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom)
        and node.module is not None
        and node.module.startswith("gigafactory.")
    }
    return names - {room.name}


def may_import(readme: str, room: str) -> bool:
    rule = " ".join(readme.partition("May import: ")[2].split()).partition(". ")[0]
    except_rule = rule.startswith("everything except") and f"`{room}`" not in rule
    ports = "the ports" in rule and room == "coordinator"
    named = re.search(rf"`{room}[`/]", rule) is not None
    return except_rule or ports or named or rule.startswith("everything below")


def test_unit_tests_are_named_after_their_module() -> None:
    """`test_lease_end.py` is beside `test_lease.py`, and both test `lease.py`."""
    unit = ROOT / "tests" / "unit"
    lost = [
        str(path.relative_to(unit))
        for path in sorted(unit.glob("*/**/test_*.py"))
        if not any(
            (SOURCES / path.relative_to(unit).parent / place).exists()
            for stem in prefixes(path.stem.removeprefix("test_"))
            for place in (f"{stem}.py", stem)
        )
    ]
    assert lost == []


def prefixes(name: str) -> list[str]:
    words = name.split("_")
    return ["_".join(words[:count]) for count in range(1, len(words) + 1)]


def test_no_two_public_classes_share_a_name() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for name, module in modules(SOURCES):
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(name)
    assert {name: sorted(files) for name, files in homes.items() if len(files) > 1} == {}


def test_function_names_say_what_the_function_does() -> None:
    riddles = [
        f"{name}:{node.lineno} {node.name}"
        for name, module in modules()
        for node in ast.walk(module)
        if isinstance(node, Function) and node.name.lstrip("_") in RIDDLES
    ]
    assert riddles == []


def test_no_file_contains_archaic_words() -> None:
    assert found(ARCHAIC) == []


def test_every_planted_bug_replaces_existing_code() -> None:
    for mutant in MUTANTS:
        with mutant.plant():
            pass
    assert [name for module, name, _ in REPLACED if not hasattr(module, name)] == []


def test_every_module_has_a_docstring() -> None:
    assert [name for name, module in modules() if not ast.get_docstring(module)] == []


def test_no_file_contains_unfinished_markers() -> None:
    assert found(UNFINISHED) == []


def test_only_loops_and_edges_catch_all_exceptions() -> None:
    catching = {
        f"{name}:{node.lineno}"
        for name, module in modules(SOURCES)
        if name not in CATCH_ALLS
        for node in ast.walk(module)
        if isinstance(node, ast.ExceptHandler) and catches_all(node)
    }
    assert catching == set()


def test_no_file_names_a_home_folder() -> None:
    assert found(HOME_FOLDER) == []
    # The path of a checkout directly below `/` is too short to tell from an ordinary path.
    if len(ROOT.parts) > 2:
        assert found(re.compile(re.escape(f"{ROOT}/"))) == []


def test_lock_files_contain_no_url() -> None:
    locks = sorted((ROOT / "requirements").glob("*.lock"))
    assert locks
    assert [lock.name for lock in locks if "://" in lock.read_text()] == []
