"""The reference pages match the code."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gigafactory
from gigafactory.config.env_vars import variable
from gigafactory.config.loading import settings
from gigafactory.domain.job import event_types
from tools import reference

SOURCES = Path(gigafactory.__file__).parent


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


def test_reference_pages_are_up_to_date(pages: dict[str, str]) -> None:
    late = [path for path, text in pages.items() if (reference.ROOT / path).read_text() != text]
    assert late == [], "run `make docs`"


def test_every_setting_is_documented(pages: dict[str, str]) -> None:
    text = pages["docs/reference/settings.md"]
    for key in settings():
        assert f"| `{key}` | `{variable(key)}` |" in text


def modules() -> Iterator[ast.Module]:
    for folder in ("domain", "coordinator", "folder"):
        for path in sorted((SOURCES / folder).rglob("*.py")):
            yield ast.parse(path.read_text())


def event_type_of(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that give an event its type, in a step or in an Event."""
    match node:
        case ast.Tuple(elts=[ast.IfExp(body=first, orelse=second), ast.Dict()]):
            yield from (first, second)
        case ast.Tuple(elts=[kind, ast.Dict() | ast.Name(id="note")]):
            yield kind
        case ast.Call(func=ast.Name(id="Event"), keywords=keywords):
            yield from (keyword.value for keyword in keywords if keyword.arg == "type")
        case _:
            pass


def test_event_types_are_written_by_their_constants() -> None:
    kinds = [
        kind for module in modules() for node in ast.walk(module) for kind in event_type_of(node)
    ]
    assert len(kinds) > 30
    assert [kind.value for kind in kinds if isinstance(kind, ast.Constant)] == []


def test_every_event_type_is_described_and_used() -> None:
    constants = {name for name in vars(event_types) if name.isupper()}
    names = constants - {"JOB_EVENTS", "FLEET_EVENTS", "ACCESS_EVENTS", "EVENT_TYPES"}
    assert {name.lower() for name in names} == event_types.EVENT_TYPES.keys()
    used = {
        node.attr
        for module in modules()
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "event_types"
    }
    assert names - used == set()


def test_version_matches_the_project_file() -> None:
    project = (reference.ROOT / "pyproject.toml").read_text()
    assert f'version = "{gigafactory.__version__}"' in project
