"""Whatever the engines of many services print, their readers neither fail nor make things up."""

from functools import cache

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.run import Usage
from gigafactory.engines.aider import AIDER
from gigafactory.engines.cline import CLINE
from gigafactory.engines.engine import Engine, Used, Work
from gigafactory.engines.opencode import OPENCODE
from gigafactory.engines.openhands import OPENHANDS
from gigafactory.engines.pi import PI
from tests.unit.engines.replay import RECORDED, a_work

ENGINES = (OPENCODE, AIDER, PI, CLINE, OPENHANDS)
BEFORE = Usage(tokens_in=10**6, tokens_out=5, turns=1, cost_nano_usd=7)
WORKS = (a_work(), a_work(session="s"), a_work(session="s", session_usage=BEFORE))


@cache
def printed(engine: str) -> list[str]:
    files = sorted((RECORDED / engine).iterdir())
    return [line for path in files for line in path.read_text().splitlines()]


@cache
def names(engine: str) -> list[str]:
    """Every name and every short text in what the engine has printed."""
    found: set[str] = set()
    for line in printed(engine):
        if line.startswith("{") and line.endswith("}"):
            gather(msgspec.json.decode(line), found)
    return sorted(found) or ["event"]


def gather(value: object, found: set[str]) -> None:
    if isinstance(value, dict):
        found.update(value)
        for inner in value.values():
            gather(inner, found)
    elif isinstance(value, list):
        for inner in value:
            gather(inner, found)
    elif isinstance(value, str) and len(value) < 30:
        found.add(value)


def odd_lines(engine: str) -> st.SearchStrategy[str]:
    """Lines of real names with any values, pieces of real lines, and any text at all."""
    name = st.sampled_from(names(engine))
    number = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    value = st.recursive(
        st.none() | st.booleans() | number | name,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(name, inner, max_size=4),
        max_leaves=8,
    )
    made = st.dictionaries(name, value, max_size=5).map(lambda o: msgspec.json.encode(o).decode())
    cut = st.builds(lambda line, end: line[:end], st.sampled_from(printed(engine)), st.integers(0))
    return made | cut | st.text()


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
@given(st.data(), st.sampled_from(WORKS), st.integers(-20, 260))
def test_odd_output_never_raises_and_no_figure_is_out_of_bounds(
    engine: Engine, data: st.DataObject, work: Work, exit_code: int
) -> None:
    reader = engine.reader(work)
    said = data.draw(st.lists(odd_lines(engine.name), max_size=8))
    for line in said:
        for event in (*reader.read(line), *reader.read(line, stderr=True)):
            if isinstance(event, Used):
                event.usage.check()
    kept = "\n".join(said).encode(errors="replace")
    verdict = reader.end(exit_code, {".gigafactory/aider.jsonl": kept, "state": kept})
    verdict.usage.check()
    if verdict.session_usage is not None:
        verdict.session_usage.check()


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
@given(prompt=st.text(), persona=st.text(), yolo=st.booleans())
def test_prompt_and_persona_are_never_arguments(
    engine: Engine, prompt: str, persona: str, *, yolo: bool
) -> None:
    work = a_work(prompt=f"PLAN-7f3a {prompt}", persona=f"SOUL-9c1e {persona}", yolo=yolo)
    arguments = " ".join(engine.start(work).argv)
    assert "PLAN-7f3a" not in arguments
    assert "SOUL-9c1e" not in arguments
