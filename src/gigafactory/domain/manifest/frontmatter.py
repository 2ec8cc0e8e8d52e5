"""Parse markdown files with YAML frontmatter, keeping line numbers."""

import re
from collections.abc import Iterator

import msgspec
import yaml

from gigafactory.domain.errors import Fault
from gigafactory.domain.manifest.yaml_node import (
    DEPTH_MAX,
    ListNode,
    MappingEntry,
    MappingNode,
    Node,
    Scalar,
    unstorable_reason,
)

BODY_BYTES_MAX = 1024 * 1024
FRONTMATTER_BYTES_MAX = 64 * 1024
NODES_MAX = 300_000
"""Values in a YAML file; they take a second to parse."""

_OPENING = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSING = re.compile(r"^---[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_FIRST_LINE = 2


class Document(msgspec.Struct, frozen=True):
    """A parsed file; if it has `faults`, `fields` is empty."""

    fields: MappingNode
    body: str
    faults: tuple[Fault, ...] = ()


def parse_document(text: bytes | str) -> Document:
    """Parse a file; never raises: problems are in `faults`."""
    decoded = _decode(text)
    if isinstance(decoded, Fault):
        return Document(MappingNode(()), "", (decoded,))
    opening = _OPENING.match(decoded)
    if opening is None:
        return Document(MappingNode(()), decoded, tuple(body_faults(decoded)))
    closing = _CLOSING.search(decoded, opening.end())
    if closing is None:
        fault = Fault("", "the frontmatter is never closed; expected a line `---` after it", 1)
        return Document(MappingNode(()), "", (fault,))
    body = decoded[closing.end() :]
    fields, faults = _fields(decoded[opening.end() : closing.start()])
    return Document(fields, body, (*faults, *body_faults(body)))


def parse_yaml(text: bytes) -> tuple[Node | None, tuple[Fault, ...]]:
    """Parse a YAML file into a node and faults; never raises."""
    decoded = _decode(text)
    if isinstance(decoded, Fault):
        return None, (decoded,)
    builder = _Builder(first_line=1)
    if (wrong := _feed(decoded, builder)) is not None:
        return None, wrong
    node = builder.root()
    return node, tuple(builder.faults)


def body_faults(body: str) -> Iterator[Fault]:
    """Yield the faults of an instruction body."""
    if wrong := unstorable_reason(body):
        yield Fault("body", f"found {wrong}")
    elif (size := len(body.encode())) > BODY_BYTES_MAX:
        yield Fault("body", f"found {size} bytes; expected at most {BODY_BYTES_MAX} (1 MiB)")


def _decode(text: bytes | str) -> str | Fault:
    if isinstance(text, bytes):
        try:
            return _decode(text.decode())
        except UnicodeDecodeError as wrong:
            line = text[: wrong.start].count(b"\n") + 1
            byte = text[wrong.start]
            return Fault("", f"found the byte 0x{byte:02x}; expected a file in UTF-8", line)
    if (at := text.find("\x00")) >= 0:
        line = text.count("\n", 0, at) + 1
        return Fault("", "found a NUL byte; expected a text file", line)
    if wrong_text := unstorable_reason(text):
        return Fault("", f"found {wrong_text}")
    return text


def _fields(text: str) -> tuple[MappingNode, list[Fault]]:
    size = len(text.encode())
    if size > FRONTMATTER_BYTES_MAX:
        expected = f"expected at most {FRONTMATTER_BYTES_MAX} (64 KiB)"
        return MappingNode(()), [Fault("", f"the frontmatter has {size} bytes; {expected}", 1)]
    builder = _Builder(first_line=_FIRST_LINE)
    if (wrong := _feed(text, builder)) is not None:
        return MappingNode(()), [*wrong]
    return builder.document()


def _feed(text: str, builder: "_Builder") -> tuple[Fault, ...] | None:
    """Feed the YAML events to the builder; return faults if it is unreadable, else None."""
    try:
        for count, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
            if count > NODES_MAX:
                return (Fault("", f"found more than {NODES_MAX} values; expected fewer"),)
            builder.feed(event)
    except _TooDeepError as wrong:
        return (wrong.fault,)
    except yaml.YAMLError as wrong:
        return (*builder.faults, _yaml_fault(text, wrong, builder.first_line))
    return None


class _TooDeepError(Exception):
    def __init__(self, line: int) -> None:
        message = f"values are nested deeper than {DEPTH_MAX}; expected a flatter manifest"
        self.fault = Fault("", message, line)
        super().__init__(message)


class _Builder:
    """Builds nodes from YAML events.

    PyYAML's composer is no alternative: it drops anchors, and it recurses in C, where a deeply
    nested file would crash the process.
    """

    def __init__(self, *, first_line: int) -> None:
        self.first_line = first_line
        self.faults: list[Fault] = []
        self._open: list[tuple[int, list[Node]]] = [(1, [])]

    def feed(self, event: yaml.Event) -> None:
        line = self.first_line + (event.start_mark.line if event.start_mark else 0)
        match event:
            case yaml.AliasEvent():
                self._add_fault(line, f"found the alias *{event.anchor}; expected no YAML aliases")
                self._add(Scalar("", "null", line))
            case yaml.ScalarEvent():
                self._refuse_anchor_and_tag(event.anchor, event.tag, line)
                self._add(self._scalar(event, line))
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._refuse_anchor_and_tag(event.anchor, event.tag, line)
                self._descend(line)
            case yaml.SequenceEndEvent():
                line, nodes = self._open.pop()
                self._add(ListNode(tuple(nodes), line))
            case yaml.MappingEndEvent():
                line, nodes = self._open.pop()
                self._add(MappingNode(tuple(self._entries(nodes)), line))
            case _:
                pass

    def document(self) -> tuple[MappingNode, list[Fault]]:
        match self.root():
            case MappingNode() as fields:
                return fields, self.faults
            case None | Scalar(kind="null"):
                return MappingNode(()), self.faults
            case _:
                self._add_fault(
                    self.first_line, "found no keys; expected lines such as `priority: high`"
                )
                return MappingNode(()), self.faults

    def root(self) -> Node | None:
        """Return the root node; None for an empty file."""
        nodes = self._open[0][1]
        if len(nodes) > 1:
            self._add_fault(nodes[1].line, "found a second YAML document; expected one")
        return nodes[0] if nodes else None

    def _add(self, node: Node) -> None:
        self._open[-1][1].append(node)

    def _descend(self, line: int) -> None:
        if len(self._open) > DEPTH_MAX:
            raise _TooDeepError(line)
        self._open.append((line, []))

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Scalar:
        text = event.value
        if wrong := unstorable_reason(text):
            self._add_fault(line, f"found {wrong}")
        if event.style:
            return Scalar(text, "text", line)
        return Scalar(text, "null" if text in _NULLS else "plain", line)

    def _refuse_anchor_and_tag(self, anchor: str | None, tag: str | None, line: int) -> None:
        if anchor is not None:
            self._add_fault(line, f"found the anchor &{anchor}; expected no YAML anchors")
        if tag is not None:
            self._add_fault(line, f"found the tag {tag!r}; expected no YAML tags")

    def _entries(self, nodes: list[Node]) -> Iterator[MappingEntry]:
        seen: dict[str, int | None] = {}
        for key, node in zip(nodes[::2], nodes[1::2], strict=True):
            if not isinstance(key, Scalar):
                self._add_fault(key.line, "found a list or mapping as a key; expected a word")
            elif key.text in seen:
                first = seen[key.text]
                self._add_fault(
                    key.line, f"found the key a second time (first in line {first})", key.text
                )
            else:
                seen[key.text] = key.line
                yield MappingEntry(key.text, node, key.line)

    def _add_fault(self, line: int | None, message: str, field: str = "") -> None:
        self.faults.append(Fault(field, message, line))


def _yaml_fault(text: str, wrong: yaml.YAMLError, first_line: int) -> Fault:
    if isinstance(wrong, yaml.reader.ReaderError):
        line, problem = text.encode()[: wrong.position].count(b"\n"), wrong.reason
    else:
        mark = getattr(wrong, "problem_mark", None) or yaml.Mark("", 0, 0, 0, None, 0)
        problem = getattr(wrong, "problem", None) or str(wrong)
        line, problem = mark.line, _with_hint(text, mark.line, mark.column, problem)
    subject = "the frontmatter" if first_line == _FIRST_LINE else "it"
    return Fault("", f"{subject} is not readable as YAML: {problem}", line + first_line)


def _with_hint(text: str, line: int, column: int, problem: str) -> str:
    # YAML ends lines at more characters than LF: a line of its count may not exist here.
    char = "".join(text.split("\n")[line : line + 1])[column : column + 1]
    if char == "\t":
        return problem + "; indent with spaces, not with tabs"
    if char and char in "@`%":
        return problem + f'; a value that begins with {char} needs quotes: "{char}…"'
    if "mapping values" in problem:
        return problem + "; a value with a colon and a space in it needs quotes"
    return problem
