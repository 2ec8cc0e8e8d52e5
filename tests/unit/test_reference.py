"""The reference is what the code says: pages that are out of date turn this red."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gigafactory
from gigafactory.config.env_vars import variable
from gigafactory.config.loading import settings
from gigafactory.domain.job.event_types import EVENTS
from tools import reference

SOURCES = Path(gigafactory.__file__).parent


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


def test_no_page_is_out_of_date(pages: dict[str, str]) -> None:
    late = [path for path, text in pages.items() if (reference.ROOT / path).read_text() != text]
    assert late == [], "run `make docs`"


def test_every_setting_is_documented(pages: dict[str, str]) -> None:
    text = pages["docs/reference/settings.md"]
    for key in settings():
        assert f"| `{key}` | `{variable(key)}` |" in text


def told(node: ast.AST) -> Iterator[ast.expr]:
    """Where an event gets its type: a note of a step, a line of the audit log, an Event."""
    match node:
        case ast.Tuple(elts=[kind, ast.Dict() | ast.Name(id="note")]):
            yield kind
        case ast.Call(func=ast.Name(id="noted"), args=[kind, *_]):
            yield kind
        case ast.Call(func=ast.Name(id="Event"), keywords=keywords):
            yield from (keyword.value for keyword in keywords if keyword.arg == "type")
        case ast.Assign(targets=[ast.Name(id="kind")], value=value):
            yield value
        case ast.Call(func=ast.Attribute(attr="_save"), args=[_, _, kind, *_]):
            yield kind
        case _:
            pass


def constants(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=first, orelse=second):
            yield from constants(first)
            yield from constants(second)
        case _:
            pass


def modules() -> Iterator[ast.Module]:
    for folder in ("domain", "coordinator"):
        for path in sorted((SOURCES / folder).rglob("*.py")):
            if path.name != "event_types.py":
                yield ast.parse(path.read_text())


def test_every_event_that_the_code_tells_is_in_the_vocabulary() -> None:
    found = {
        text
        for module in modules()
        for node in ast.walk(module)
        for kind in told(node)
        for text in constants(kind)
    }
    assert len(found) > 30
    assert found - EVENTS.keys() == set()


def test_the_vocabulary_has_no_event_that_nobody_tells() -> None:
    strings = {
        node.value
        for module in modules()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert EVENTS.keys() - strings == set()


def test_the_version_is_said_in_one_place_for_all() -> None:
    project = (reference.ROOT / "pyproject.toml").read_text()
    assert f'version = "{gigafactory.__version__}"' in project
