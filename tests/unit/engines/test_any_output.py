"""Whatever an engine prints, its reader neither fails nor makes anything up."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.run import Usage
from gigafactory.engines.acp import Acp
from gigafactory.engines.claude import CLAUDE
from gigafactory.engines.codex import CODEX
from gigafactory.engines.command import COMMAND
from gigafactory.engines.copilot import COPILOT
from gigafactory.engines.engine import Engine, Used, Work
from gigafactory.engines.gemini import GEMINI
from gigafactory.engines.qwen import QWEN
from tests.unit.engines.replay import RECORDED, a_work

READERS = (CLAUDE, CODEX, GEMINI, QWEN, COPILOT, COMMAND, Acp("acp", "agent"))

odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.just([]),
    st.just({}),
    st.just([{"type": "text"}, 1]),
)


@cache
def all_lines(engine: str) -> list[str]:
    return [
        line
        for path in sorted((RECORDED / engine).glob("*"))
        for line in path.read_text().splitlines()
    ] or [""]


def paths(found: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(found, dict):
        for key, inner in found.items():
            yield from paths(inner, (*path, key))
    elif isinstance(found, list):
        for place, inner in enumerate(found):
            yield from paths(inner, (*path, place))


@st.composite
def damaged(draw: st.DrawFn, engine: str) -> str:
    """A recorded line in which something has been cut off, or replaced by something odd."""
    line = draw(st.sampled_from(all_lines(engine)))
    if not line.startswith("{") or draw(st.booleans()):
        return line[: draw(st.integers(0, len(line)))]
    found = msgspec.json.decode(line)
    path = draw(st.sampled_from(list(paths(found))))
    if not path:
        return line
    here = found
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = draw(odd)
    return msgspec.json.encode(found).decode()


def check(engine: Engine, work: Work, said: list[str], exit_code: int) -> None:
    reader = engine.reader(work)
    for line in said:
        for event in reader.read(line):
            if isinstance(event, Used):
                event.usage.check()
        list(reader.read(line, stderr=True))
    data = "\n".join(said).encode(errors="replace")
    session = work.session or work.new_session
    names = (f"copilot-usage-{work.new_session}.json", f"rollout-{session}.jsonl", "other")
    verdict = reader.end(exit_code, dict.fromkeys(names, data))
    verdict.usage.check()
    if verdict.session_usage is not None:
        verdict.session_usage.check()


works = st.sampled_from(
    [
        a_work(),
        a_work(session="s", session_usage=Usage(tokens_in=10**6, tokens_out=5, cost_nano_usd=7)),
        a_work(session="s"),
    ]
)


@pytest.mark.parametrize("engine", READERS, ids=lambda engine: engine.name)
@given(st.data(), works, st.integers(-20, 260))
def test_damaged_output_never_raises_and_no_figure_is_out_of_bounds(
    engine: Engine, data: st.DataObject, work: Work, exit_code: int
) -> None:
    said = data.draw(st.lists(damaged(engine.name), max_size=8))
    check(engine, work, said, exit_code)


@pytest.mark.parametrize("engine", READERS, ids=lambda engine: engine.name)
@given(st.lists(st.text(), max_size=5), works, st.integers(-20, 260))
def test_any_text_never_raises(engine: Engine, said: list[str], work: Work, exit_code: int) -> None:
    check(engine, work, said, exit_code)


@pytest.mark.parametrize("engine", READERS, ids=lambda engine: engine.name)
@given(st.text(), st.text(), st.one_of(st.none(), st.text()))
def test_prompt_and_persona_are_never_arguments(
    engine: Engine, prompt: str, persona: str, model: str | None
) -> None:
    work = a_work(
        prompt=f"PLAN-7f3a {prompt}", persona=f"SOUL-9c1e {persona}", model=model, command="x"
    )
    arguments = " ".join(engine.start(work).argv)
    assert "PLAN-7f3a" not in arguments
    assert "SOUL-9c1e" not in arguments
