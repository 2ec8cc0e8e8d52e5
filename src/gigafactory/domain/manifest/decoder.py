"""How a node becomes a value: readers that note every fault and go on."""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
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
LIST_MAX = 100
EXTRA_BYTES_MAX = 64 * 1024
EXTRA_KEY_CHARS_MAX = 100

_WHOLE = re.compile(r"-?[0-9]{1,18}")
_FLAGS = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}


class DecodeContext:
    """One input on its way to becoming a record: its spelling of keys, and its faults so far."""

    def __init__(self, *, camel: bool = False, faults: Iterable[Fault] = ()) -> None:
        self._camel = camel
        self._faults: list[Fault] = []
        self._unlisted = 0
        for fault in faults:
            self.add_fault(fault.field, fault.line, fault.message)

    def add_fault(self, field: str, line: int | None, message: str | Callable[[], str]) -> None:
        """Note a fault; after the first hundred they are only counted, and need no message."""
        if len(self._faults) < FAULTS_MAX:
            told = message if isinstance(message, str) else message()
            self._faults.append(Fault(field, told, line))
        else:
            self._unlisted += 1

    def decoders_of(self, table: "FieldTable") -> "Mapping[str, tuple[str, FieldDecoder]]":
        """Give a table's readers by the keys that this input uses."""
        return table.camel if self._camel else table.kebab

    def raise_faults(self, what: str) -> None:
        """Refuse `what` with all of its faults in the order of lines, if there is any (Invalid)."""
        listed = sorted(self._faults, key=lambda fault: fault.line or math.inf)
        if self._unlisted:
            listed.append(Fault("", f"and {self._unlisted} faults more"))
        if listed:
            raise Invalid(what, listed)


FieldDecoder = Callable[[Node, str, DecodeContext], object]
"""Gives the value of a node, or None after noting a fault under the field's name."""
Check = Callable[[str], object]
"""Gives the value of a text, or raises ValueError with what is expected."""
RecordType = TypeVar("RecordType")


class FieldTable:
    """The keys that a mapping may have, in both spellings, each with its name in a record."""

    def __init__(self, readers: Mapping[str, FieldDecoder]) -> None:
        self.kebab = {key: (camel(key), reader) for key, reader in readers.items()}
        self.camel = {camel(key): (camel(key), reader) for key, reader in readers.items()}


@lru_cache(maxsize=1024)
def camel(kebab: str) -> str:
    """Spell a kebab-case key in camelCase."""
    first, *others = kebab.split("-")
    return first + "".join(other.capitalize() for other in others)


def mismatch(node: Node, what: object) -> str:
    """Say what was found and what is expected."""
    return f"found {describe(node)}; expected {what}"


def check_message(_node: Node, what: object) -> str:
    """Say it in the check's own words, which name the text or keep it to themselves."""
    return str(what)


def text(check: Check, *, explain: Callable[[Node, object], str] = mismatch) -> FieldDecoder:
    """Read a text that passes a check."""
    return _scalar(check, frozenset({"plain", "text"}), "text", explain)


def quantity(check: Check) -> FieldDecoder:
    """Read a number, or a text such as `4h` or `2M`, that passes a check."""
    kinds = frozenset({"plain", "text", "number"})
    return _scalar(check, kinds, "a quantity", mismatch)


def one_of(*choices: str) -> FieldDecoder:
    """Read one of a few words."""

    def check(word: str) -> str:
        if word not in choices:
            raise ValueError("one of " + ", ".join(choices))
        return word

    return _scalar(check, frozenset({"plain", "text"}), "one of " + ", ".join(choices), mismatch)


def whole_number(least: int, most: int) -> FieldDecoder:
    """Read a whole number between two bounds."""
    what = f"a whole number from {least} to {most}"

    def check(digits: str) -> int:
        if not _WHOLE.fullmatch(digits) or not least <= int(digits) <= most:
            raise ValueError(what)
        return int(digits)

    return _scalar(check, frozenset({"plain", "number"}), what, mismatch)


def boolean(node: Node, field: str, context: DecodeContext) -> object:
    """Read true or false, in any of YAML's spellings."""
    if isinstance(node, Scalar) and node.kind in {"plain", "bool"}:
        value = _FLAGS.get(node.text.lower())
        if value is not None:
            return value
    context.add_fault(field, node.line, mismatch(node, "true or false"))
    return None


def list_of(item: FieldDecoder, *, size_max: int = LIST_MAX) -> FieldDecoder:
    """Read a list, or a single value as a list of one."""

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
    """Read the keys that a table knows, by their camelCase names; the others are faults.

    A key with nothing after it counts as not given; one that starts with `x-` is kept in `extra`.
    """
    spelled = context.decoders_of(table)
    values: dict[str, object] = {}
    extra: dict[str, object] = {}
    for entry in node.entries:
        path = f"{field}.{entry.key}" if field else entry.key
        if entry.key.startswith("x-"):
            extra[entry.key] = to_json(entry.node)
        elif entry.key not in spelled:
            context.add_fault(path, entry.line, partial(unknown_key_message, entry.key, spelled))
        elif not (isinstance(entry.node, Scalar) and entry.node.kind == "null"):
            name, reader = spelled[entry.key]
            value = reader(entry.node, path, context)
            if value is not None:
                values[name] = value
    if extra:
        values["extra"] = extra
        _check_extra(extra, node, field, context)
    return values


def record_of(
    of: type[RecordType], table: FieldTable, *, what: str
) -> Callable[..., RecordType | None]:
    """Read a small mapping into a record that has its keys."""

    def read(node: Node, field: str, context: DecodeContext) -> RecordType | None:
        if not isinstance(node, MappingNode):
            context.add_fault(field, node.line, mismatch(node, what))
            return None
        values = decode_fields(node, table, field, context)
        if values.pop("extra", None):
            context.add_fault(field, node.line, f"found a key that starts with x-; expected {what}")
        return msgspec.convert(values, of)

    return read


def mapping_from_json(obj: Mapping[str, object], context: DecodeContext) -> MappingNode:
    """Take decoded JSON as a mapping; a value that cannot be kept is a fault of its key."""
    entries = []
    for key, value in obj.items():
        try:
            entries.append(MappingEntry(parse_key(key), from_json(value)))
        except ValueError as wrong:
            context.add_fault(ascii(key)[1:-1], None, f"found {wrong}")
    return MappingNode(tuple(entries))


def unknown_key_message(key: str, known: Iterable[str]) -> str:
    """Say that a key is unknown, and which one may have been meant."""
    short = key if len(key) <= EXTRA_KEY_CHARS_MAX else key[:EXTRA_KEY_CHARS_MAX] + "…"
    near = difflib.get_close_matches(short, sorted(known), n=1, cutoff=0.0)
    return f"found the unknown key {short!r}; did you mean {near[0]!r}? (own keys start with x-)"


def _check_extra(
    extra: dict[str, object], node: MappingNode, field: str, context: DecodeContext
) -> None:
    for key in extra:
        if len(key) > EXTRA_KEY_CHARS_MAX:
            most = f"expected at most {EXTRA_KEY_CHARS_MAX}"
            context.add_fault(
                field, node.line_of(key), f"found a key of {len(key)} characters; {most}"
            )
    if len(extra) > LIST_MAX:
        message = f"found {len(extra)} keys that start with x-; expected at most {LIST_MAX}"
        context.add_fault(field, node.line, message)
    if (size := len(msgspec.json.encode(extra))) > EXTRA_BYTES_MAX:
        message = f"found {size} bytes in x- keys; expected at most {EXTRA_BYTES_MAX}"
        context.add_fault(field, node.line, message)


def _scalar(
    check: Check, kinds: frozenset[str], what: str, explain: Callable[[Node, object], str]
) -> FieldDecoder:
    def read(node: Node, field: str, context: DecodeContext) -> object:
        if not isinstance(node, Scalar) or node.kind not in kinds:
            context.add_fault(field, node.line, mismatch(node, what))
            return None
        try:
            return check(node.text)
        except ValueError as wrong:
            context.add_fault(field, node.line, explain(node, wrong))
            return None

    return read
