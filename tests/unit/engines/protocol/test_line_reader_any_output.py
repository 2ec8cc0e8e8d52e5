"""No output of an engine makes its reader fail or invent anything."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.domain.job.run import Usage
from gigafactory.engines.acp import acp_engine
from gigafactory.engines.catalogue import ENGINES
from gigafactory.engines.protocol.engine import Engine, UsageUpdate, Work
from tests.support.engine_replay import RECORDED, a_work

pytestmark = pytest.mark.slow

ALL = (*ENGINES.values(), acp_engine("acp:agent", "agent"))
READERS = tuple({engine.reader: engine for engine in ALL}.values())

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
    """Return every recorded line; all engines that use ACP share one recording."""
    folder = RECORDED / (engine if (RECORDED / engine).is_dir() else "acp")
    return [line for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]


@cache
def names(engine: str) -> list[str]:
    """Return every key and every short string in the engine's recordings."""
    found: set[str] = set()
    for line in all_lines(engine):
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


def made_up(engine: str) -> st.SearchStrategy[str]:
    """Return a strategy for lines with real keys and arbitrary values."""
    name = st.sampled_from(names(engine))
    inner = st.dictionaries(name, odd | name, max_size=4)
    value = odd | name | inner | st.lists(inner, max_size=2)
    lines = st.dictionaries(name, value, max_size=5)
    return lines.map(lambda line: msgspec.json.encode(line).decode())


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
    """Draw a recorded line that is truncated or has one value replaced by an odd one."""
    line = draw(st.sampled_from(all_lines(engine)))
    if not line.startswith("{") or not line.endswith("}") or draw(st.booleans()):
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
            if isinstance(event, UsageUpdate):
                event.usage.check()
        list(reader.read(line, stderr=True))
    data = "\n".join(said).encode(errors="replace")
    session = work.session or work.new_session
    files = (
        f"copilot-usage-{work.new_session}.json",
        f"rollout-{session}.jsonl",
        ".gigafactory/aider.jsonl",
        "other",
    )
    verdict = reader.end(exit_code, dict.fromkeys(files, data))
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
    said = data.draw(st.lists(damaged(engine.name) | made_up(engine.name), max_size=6))
    check(engine, work, said, exit_code)


@pytest.mark.parametrize("engine", READERS, ids=lambda engine: engine.name)
@given(st.lists(st.text(), max_size=5), works, st.integers(-20, 260))
def test_arbitrary_output_never_raises(
    engine: Engine, said: list[str], work: Work, exit_code: int
) -> None:
    check(engine, work, said, exit_code)


@pytest.mark.parametrize("engine", ALL, ids=lambda engine: engine.name)
@given(prompt=st.text(), persona=st.text(), model=st.none() | st.text(), yolo=st.booleans())
def test_prompt_and_persona_are_never_arguments(
    engine: Engine, prompt: str, persona: str, model: str | None, *, yolo: bool
) -> None:
    work = a_work(
        prompt=f"PLAN-7f3a {prompt}",
        persona=f"SOUL-9c1e {persona}",
        model=model,
        command="x",
        yolo=yolo,
    )
    arguments = " ".join(engine.start(work).argv)
    assert "PLAN-7f3a" not in arguments
    assert "SOUL-9c1e" not in arguments
