"""Printed tables, with any cell content."""

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gigafactory.cli.output.tables import show_attention, show_jobs
from gigafactory.cli.output.text import say_json

texts = st.text(st.characters(exclude_categories=["Cs"]))
controls = st.text(st.sampled_from("\x1b\x9b\x07\x08\x00\x7f[]2J;m\r\n\t x…"))
words = texts | controls
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | words
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(words, inner))


def printed(show: Callable[[], None]) -> str:
    with redirect_stdout(io.StringIO()) as out:
        show()
    return out.getvalue()


@given(values)
def test_json_is_laid_out_and_otherwise_as_it_came_without_control_characters(
    value: object,
) -> None:
    body = msgspec.json.encode(value)
    shown = printed(lambda: say_json(body))
    laid_out = msgspec.json.format(body, indent=2).decode() + "\n"
    assert shown == "".join(
        f"\\u{ord(char):04x}" if "\x7f" <= char <= "\x9f" else char for char in laid_out
    )


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_number_is_printed_without_loss(value: float) -> None:
    assert json.loads(printed(lambda: say_json(msgspec.json.encode(value)))) == value


def harmless(shown: str, lines: int) -> bool:
    return shown.count("\n") == lines and shown.replace("\n", "").isprintable()


@given(title=controls, name=controls, engine=controls, flags=st.lists(controls, max_size=2))
def test_any_job_is_printed_as_one_harmless_line(
    title: str, name: str, engine: str, flags: list[str]
) -> None:
    job = {"title": title, "name": name, "engine": engine, "flags": flags, "lease": None}
    known = {"id": "01J", "stage": "odd", "priority": "low", "stageSince": "2026-01-02T03:04:05Z"}
    body = json.dumps({"jobs": [job | known]}).encode()
    assert harmless(printed(lambda: show_jobs(body, as_json=False)), lines=2)


@given(title=controls, reason=controls, actions=st.lists(controls, max_size=2))
def test_any_attention_item_is_printed_as_one_harmless_line(
    title: str, reason: str, actions: list[str]
) -> None:
    matter = {"title": title, "reason": reason, "actions": actions, "kind": "x", "subject": "y"}
    body = json.dumps({"attention": [matter | {"since": "2026-01-02T03:04:05Z"}]}).encode()
    assert harmless(printed(lambda: show_attention(body, as_json=False)), lines=2)
