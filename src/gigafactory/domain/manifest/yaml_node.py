"""Untyped nodes of YAML or JSON input: scalars, lists and mappings with line numbers."""

import math
import re
from typing import Literal

import msgspec

ScalarKind = Literal["plain", "text", "number", "bool", "null"]
JSON = object
"""Text, number, bool, None, or a list or mapping of these."""

DEPTH_MAX = 32
_INT64_MAX = 2**63 - 1
_WHOLE = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(\.[0-9]{1,30}(?:[eE][-+]?[0-9]{1,3})?)?")
_SHOWN_CHARS_MAX = 60


class Scalar(msgspec.Struct, frozen=True):
    """One value; `plain` is unquoted YAML, whose type is up to the decoder."""

    text: str
    kind: ScalarKind
    line: int | None = None


class ListNode(msgspec.Struct, frozen=True):
    """A list."""

    items: "tuple[Node, ...]"
    line: int | None = None


class MappingEntry(msgspec.Struct, frozen=True):
    """One entry of a mapping."""

    key: str
    node: "Node"
    line: int | None = None


class MappingNode(msgspec.Struct, frozen=True):
    """A mapping in its written order, with unique keys."""

    entries: tuple[MappingEntry, ...]
    line: int | None = None

    def line_of(self, key: str) -> int | None:
        """Return the line of a key, else that of the mapping."""
        return next((entry.line for entry in self.entries if entry.key == key), self.line)


Node = Scalar | ListNode | MappingNode


def unstorable_reason(text: str) -> str | None:
    """Return why a text cannot be stored, or None if it can."""
    if "\x00" in text:
        return "a NUL character; expected text without any"
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        return "half of a character pair (a lone surrogate); expected text that UTF-8 can hold"
    return None


def from_json(value: JSON, *, depth: int = 0) -> Node:
    """Convert decoded JSON to a node; ValueError says what cannot be stored."""
    if depth > DEPTH_MAX:
        raise ValueError(f"values nested deeper than {DEPTH_MAX}; expected a flatter manifest")
    match value:
        case None:
            return Scalar("", "null")
        case bool():
            return Scalar("true" if value else "false", "bool")
        case str():
            return Scalar(_storable(value), "text")
        case int() | float():
            return Scalar(_number(value), "number")
        case list() | tuple():
            return ListNode(tuple(from_json(item, depth=depth + 1) for item in value))
        case dict():
            return MappingNode(
                tuple(
                    MappingEntry(parse_key(key), from_json(item, depth=depth + 1))
                    for key, item in value.items()
                )
            )
        case _:
            raise ValueError(f"a {type(value).__name__}; expected JSON")


def to_json(node: Node) -> JSON:
    """Convert a node to JSON values."""
    match node:
        case ListNode():
            return [to_json(item) for item in node.items]
        case MappingNode():
            return {entry.key: to_json(entry.node) for entry in node.entries}
        case Scalar(kind="null"):
            return None
        case Scalar(kind="text"):
            return node.text
        case Scalar(kind="number"):
            return int(node.text) if _WHOLE.fullmatch(node.text) else float(node.text)
        case _:
            return _resolve_plain(node.text)


def describe(node: Node) -> str:
    """Describe a node briefly, for a message."""
    match node:
        case Scalar(kind="null"):
            return "nothing"
        case Scalar():
            text = node.text
            return repr(text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…")
        case ListNode():
            return f"a list of {len(node.items)}"
        case _:
            return "a mapping"


def _resolve_plain(text: str) -> str | int | float | bool:
    """Resolve a plain scalar as JSON would: `no`, `1:30` and dates stay text."""
    if text in {"true", "false"}:
        return text == "true"
    match = _NUMBER.fullmatch(text)
    if match is None:
        return text
    if match[1]:
        return float(text) if math.isfinite(float(text)) else text
    return int(text) if abs(int(text)) <= _INT64_MAX else text


def _number(value: float) -> str:
    if isinstance(value, int):
        if abs(value) > _INT64_MAX:
            raise ValueError("a whole number beyond 64 bits; expected a smaller one")
    elif not math.isfinite(value):
        raise ValueError(f"the number {value}; expected a finite one")
    return repr(value)


def _storable(text: str) -> str:
    if wrong := unstorable_reason(text):
        raise ValueError(wrong)
    return text


def parse_key(key: object) -> str:
    """Return a key of decoded JSON; ValueError if it cannot be stored."""
    if not isinstance(key, str):
        raise ValueError(f"the key {key!r}; expected text")  # noqa: TRY004 - one kind of refusal
    return _storable(key)
