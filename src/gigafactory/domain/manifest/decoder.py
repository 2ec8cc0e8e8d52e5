"""Decoders from YAML/JSON nodes to typed values; they collect faults instead of raising."""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

import msgspec

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.manifest.yaml_node import (
    MappingEntry,
    MappingNode,
    Node,
    Scalar,
    describe,
    from_json,
    parse_key,
    to_json,
)

FAULTS_MAX = 100
SUGGESTIONS_MAX = 10
"""Each takes about a millisecond."""
LIST_MAX = 100
EXTRA_BYTES_MAX = 64 * 1024
EXTRA_KEY_CHARS_MAX = 100

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_FLAGS = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}


class DecodeContext:
    """The state of decoding one input: the spelling of its keys, and its faults so far."""

    def __init__(self, *, camel: bool = False, faults: Iterable[Fault] = ()) -> None:
        self._camel = camel
        self._faults: list[Fault] = []
        self._unlisted = 0
        self._unknown = 0
        for fault in faults:
            self.add_fault(fault.field, fault.line, fault.message)

    def add_fault(self, field: str, line: int | None, message: str) -> None:
        """Add a fault; beyond FAULTS_MAX they are only counted."""
        if len(self._faults) < FAULTS_MAX:
            self._faults.append(Fault(field, message, line))
        else:
            self._unlisted += 1

    def add_unknown_key(
        self, field: str, line: int | None, entry: str, table: "FieldTable"
    ) -> None:
        """Add the fault of an unknown key; the first ones come with a suggestion."""
        self._unknown += 1
        known = self.decoders_of(table) if self._unknown <= SUGGESTIONS_MAX else ()
        self.add_fault(field, line, unknown_key_message(entry, known))

    def decoders_of(self, table: "FieldTable") -> "Mapping[str, tuple[str, FieldDecoder]]":
        """Return a table's decoders by the keys in this input's spelling."""
        return table.camel if self._camel else table.kebab

    def raise_faults(self, subject: str) -> None:
        """Raise Invalid with all faults, ordered by line, if there are any."""
        listed = sorted(self._faults, key=lambda fault: fault.line or math.inf)
        if self._unlisted:
            listed.append(Fault("", f"and {self._unlisted} faults more"))
        if listed:
            raise Invalid(subject, listed)


FieldDecoder = Callable[[Node, str, DecodeContext], object]
"""Returns the value of a node, or None after adding a fault."""
Check = Callable[[str], object]
"""Returns the value of a text, or raises ValueError with what is expected."""
RecordType = TypeVar("RecordType")


class FieldTable:
    """The keys of a mapping in kebab-case and camelCase, with their record fields and decoders."""

    def __init__(self, readers: Mapping[str, FieldDecoder]) -> None:
        self.kebab = {key: (camel(key), reader) for key, reader in readers.items()}
        self.camel = {camel(key): (camel(key), reader) for key, reader in readers.items()}


@lru_cache(maxsize=1024)
def camel(kebab: str) -> str:
    """Convert a kebab-case key to camelCase."""
    first, *others = kebab.split("-")
    return first + "".join(other.capitalize() for other in others)


def mismatch(node: Node, expected: object) -> str:
    """Return the message of a fault: what was found and what is expected."""
    return f"found {describe(node)}; expected {expected}"


def check_message(_node: Node, expected: object) -> str:
    """Return the check's own message, without the found text."""
    return str(expected)


def text(check: Check, *, explain: Callable[[Node, object], str] = mismatch) -> FieldDecoder:
    """Return a decoder of a text that passes a check."""
    return _scalar(check, frozenset({"plain", "text"}), "text", explain)


def quantity(check: Check) -> FieldDecoder:
    """Return a decoder of a number, or a text such as `4h` or `2M`, that passes a check."""
    kinds = frozenset({"plain", "text", "number"})
    return _scalar(check, kinds, "a quantity", mismatch)


def one_of(*choices: str) -> FieldDecoder:
    """Return a decoder of one of these words."""

    def check(word: str) -> str:
        if word not in choices:
            raise ValueError("one of " + ", ".join(choices))
        return word

    return _scalar(check, frozenset({"plain", "text"}), "one of " + ", ".join(choices), mismatch)


def whole_number(least: int, most: int) -> FieldDecoder:
    """Return a decoder of a whole number between two bounds."""
    expected = f"a whole number from {least} to {most}"

    def check(digits: str) -> int:
        if not _WHOLE.fullmatch(digits) or not least <= int(digits) <= most:
            raise ValueError(expected)
        return int(digits)

    return _scalar(check, frozenset({"plain", "number"}), expected, mismatch)


def boolean(node: Node, field: str, context: DecodeContext) -> object:
    """Decode true or false, in any of YAML's spellings."""
    if isinstance(node, Scalar) and node.kind in {"plain", "bool"}:
        value = _FLAGS.get(node.text.lower())
        if value is not None:
            return value
    context.add_fault(field, node.line, mismatch(node, "true or false"))
    return None


def list_of(item: FieldDecoder, *, size_max: int = LIST_MAX) -> FieldDecoder:
    """Return a decoder of a list; a single value counts as a list of one."""

    def read(node: Node, field: str, context: DecodeContext) -> object:
        if isinstance(node, Scalar):
            value = item(node, field, context)
            return () if value is None else (value,)
        if isinstance(node, MappingNode):
            context.add_fault(field, node.line, mismatch(node, "a list"))
            return ()
        if len(node.items) > size_max:
            context.add_fault(field, node.line, mismatch(node, f"at most {size_max} items"))
            return ()
        values = (item(each, f"{field}[{i}]", context) for i, each in enumerate(node.items))
        return tuple(dict.fromkeys(value for value in values if value is not None))

    return read


def decode_fields(
    node: MappingNode, table: FieldTable, field: str, context: DecodeContext
) -> dict[str, object]:
    """Decode the keys of a table into a dict by camelCase names; unknown keys are faults.

    A key without a value counts as not given; keys that start with `x-` go to `extra`.
    """
    decoders = context.decoders_of(table)
    values: dict[str, object] = {}
    extra: dict[str, object] = {}
    for entry in node.entries:
        path = f"{field}.{entry.key}" if field else entry.key
        if entry.key.startswith("x-"):
            extra[entry.key] = to_json(entry.node)
        elif entry.key not in decoders:
            context.add_unknown_key(path, entry.line, entry.key, table)
        elif not (isinstance(entry.node, Scalar) and entry.node.kind == "null"):
            name, reader = decoders[entry.key]
            value = reader(entry.node, path, context)
            if value is not None:
                values[name] = value
    if extra:
        values["extra"] = extra
        _check_extra(extra, node, field, context)
    return values


def record_of(
    of: type[RecordType], table: FieldTable, *, expected: str
) -> Callable[..., RecordType | None]:
    """Return a decoder of a mapping into a record."""

    def read(node: Node, field: str, context: DecodeContext) -> RecordType | None:
        if not isinstance(node, MappingNode):
            context.add_fault(field, node.line, mismatch(node, expected))
            return None
        values = decode_fields(node, table, field, context)
        if values.pop("extra", None):
            context.add_fault(
                field, node.line, f"found a key that starts with x-; expected {expected}"
            )
        return msgspec.convert(values, of)

    return read


def mapping_from_json(obj: Mapping[str, object], context: DecodeContext) -> MappingNode:
    """Convert decoded JSON to a mapping node; a value that cannot be stored is a fault."""
    entries = []
    for key, value in obj.items():
        try:
            entries.append(MappingEntry(parse_key(key), from_json(value)))
        except ValueError as wrong:
            context.add_fault(ascii(key)[1:-1], None, f"found {wrong}")
    return MappingNode(tuple(entries))


def unknown_key_message(key: str, known: Iterable[str]) -> str:
    """Return the message for an unknown key, with the most similar of the known ones."""
    short = key if len(key) <= EXTRA_KEY_CHARS_MAX else key[:EXTRA_KEY_CHARS_MAX] + "…"
    near = difflib.get_close_matches(short, sorted(known), n=1, cutoff=0.0)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return f"found the unknown key {short!r}{guess} (own keys start with x-)"


def _check_extra(
    extra: dict[str, object], node: MappingNode, field: str, context: DecodeContext
) -> None:
    if len(extra) > LIST_MAX:
        message = f"found {len(extra)} keys that start with x-; expected at most {LIST_MAX}"
        context.add_fault(field, node.line, message)
        return
    for key in extra:
        if len(key) > EXTRA_KEY_CHARS_MAX:
            most = f"expected at most {EXTRA_KEY_CHARS_MAX}"
            context.add_fault(
                field, node.line_of(key), f"found a key of {len(key)} characters; {most}"
            )
    if (size := len(msgspec.json.encode(extra))) > EXTRA_BYTES_MAX:
        message = f"found {size} bytes in x- keys; expected at most {EXTRA_BYTES_MAX}"
        context.add_fault(field, node.line, message)


def _scalar(
    check: Check, kinds: frozenset[str], expected: str, explain: Callable[[Node, object], str]
) -> FieldDecoder:
    def read(node: Node, field: str, context: DecodeContext) -> object:
        if not isinstance(node, Scalar) or node.kind not in kinds:
            context.add_fault(field, node.line, mismatch(node, expected))
            return None
        try:
            return check(node.text)
        except ValueError as wrong:
            context.add_fault(field, node.line, explain(node, wrong))
            return None

    return read
