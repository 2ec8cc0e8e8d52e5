"""Parse submitted jobs: markdown job files, and JSON manifests with a body."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta

import msgspec

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.manifest import frontmatter
from gigafactory.domain.manifest.decoder import (
    DecodeContext,
    FieldTable,
    camel,
    decode_fields,
    mapping_from_json,
    mismatch,
)
from gigafactory.domain.manifest.fields import FIELDS, TITLE_CHARS_MAX
from gigafactory.domain.manifest.manifest import Child, JobFile, Manifest
from gigafactory.domain.manifest.names import slugify
from gigafactory.domain.manifest.yaml_node import ListNode, MappingNode, Node, Scalar

CHILDREN_MAX = 10_000
SNAPSHOT_ONLY = ("scope_enforcement", "persona")
"""Fields that a resolved manifest gets from its profile; they are not written in a job."""

_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_INDENT_MAX = 3
_HEADING_LEVELS = range(1, 7)


def parse_job_file(text: bytes | str, *, stem: str | None = None) -> JobFile:
    """Parse a job file; Invalid lists every fault with its field and line.

    Without a name or title, these come from the file's stem and from the body.
    """
    document = frontmatter.parse_document(text)
    context = DecodeContext(faults=document.faults)
    manifest = _manifest(document.fields, "", context)
    context.raise_faults(f"the job file {stem!r}" if stem else "the job file")
    if manifest.name is None and stem:
        manifest = msgspec.structs.replace(manifest, name=slugify(stem))
    return JobFile(with_title(manifest, document.body), document.body)


def parse_json(obj: Mapping[str, object]) -> Manifest:
    """Parse a camelCase JSON manifest; Invalid lists every fault."""
    context = DecodeContext(camel=True)
    manifest = _manifest(mapping_from_json(obj, context), "", context)
    context.raise_faults("the manifest")
    return manifest


def parse_snapshot(obj: Mapping[str, object]) -> Manifest:
    """Parse a stored, resolved manifest; Invalid lists every fault."""
    own = {camel(name.replace("_", "-")): name for name in SNAPSHOT_ONLY}
    manifest = parse_json({key: value for key, value in obj.items() if key not in own})
    given = {own[key]: value for key, value in obj.items() if key in own}
    faults = [
        Fault(key, "expected text") for key, value in given.items() if not isinstance(value, str)
    ]
    if faults:
        raise Invalid("the manifest", faults)
    return msgspec.structs.replace(manifest, **given)


def parse_json_job(obj: Mapping[str, object]) -> JobFile:
    """Parse `{"manifest": {…}, "body": "…"}`; Invalid lists every fault."""
    context = DecodeContext(camel=True)
    given, body = obj.get("manifest", {}), obj.get("body", "")
    for key in obj:
        if key not in {"manifest", "body"}:
            context.add_fault(str(key), None, "found an unknown key; expected manifest and body")
    if not isinstance(given, Mapping):
        context.add_fault("manifest", None, "expected a mapping of the manifest's fields")
        given = {}
    manifest = _manifest(mapping_from_json(given, context), "", context)
    if not isinstance(body, str):
        context.add_fault("body", None, "expected the instructions as text")
        body = ""
    for fault in frontmatter.body_faults(body):
        context.add_fault(fault.field, None, fault.message)
    context.raise_faults("the job")
    return JobFile(with_title(manifest, body), body)


def with_title(manifest: Manifest, body: str) -> Manifest:
    """Return the manifest with a title, by default that of its body."""
    if manifest.title is not None:
        return manifest
    return msgspec.structs.replace(manifest, title=title_of(body))


def title_of(body: str) -> str | None:
    """Return the first heading, else the first line; None for an empty body."""
    for lines in (_headings(body), iter(body.splitlines())):
        for line in lines:
            words = "".join(char if char.isprintable() else " " for char in line).split()
            if words:
                return " ".join(words)[:TITLE_CHARS_MAX].rstrip()
    return None


def _headings(body: str) -> Iterator[str]:
    fenced = False
    for line in body.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and (heading := _heading(line)) is not None:
            yield heading


def _heading(line: str) -> str | None:
    """Return the text of a markdown heading such as `## Text ##`; None for another line."""
    marked = line.lstrip()
    text = marked.lstrip("#")
    level = len(marked) - len(text)
    if len(line) - len(marked) > _INDENT_MAX or level not in _HEADING_LEVELS:
        return None
    if not text.startswith((" ", "\t")):
        return None
    text = text.strip(" \t")
    unclosed = text.rstrip("#")
    return unclosed.rstrip(" \t") if unclosed.endswith((" ", "\t")) else text


def _manifest(node: MappingNode, field: str, context: DecodeContext) -> Manifest:
    values = decode_fields(node, _TABLE, field, context)
    return _record(values, node, field, context)


def _record(
    values: dict[str, object], node: MappingNode, field: str, context: DecodeContext
) -> Manifest:
    if isinstance(values.get("notBefore"), timedelta):
        values["delay"] = values.pop("notBefore")
    manifest = msgspec.convert(values, Manifest)
    if manifest.children and manifest.kind != "composite":
        fault_text = "found children in a leaf; expected `kind: composite` beside them"
        context.add_fault(_path(field, "children"), node.line_of("children"), fault_text)
    if manifest.command is not None and manifest.engine not in {None, "command"}:
        fault_text = (
            f"found a command for the engine {manifest.engine!r}; expected `engine: command`"
        )
        context.add_fault(_path(field, "command"), node.line_of("command"), fault_text)
    return manifest


def decode_children(node: Node, field: str, context: DecodeContext) -> tuple[Child, ...]:
    """Decode a list of child manifests with bodies, recursively."""
    if not isinstance(node, ListNode):
        context.add_fault(field, node.line, mismatch(node, "a list of manifests with bodies"))
        return ()
    if _count(node) > CHILDREN_MAX:
        context.add_fault(
            field, node.line, mismatch(node, f"at most {CHILDREN_MAX} children in all")
        )
        return ()
    children = (_child(each, f"{field}[{i}]", context) for i, each in enumerate(node.items))
    return tuple(child for child in children if child is not None)


def _child(node: Node, field: str, context: DecodeContext) -> Child | None:
    if not isinstance(node, MappingNode):
        context.add_fault(field, node.line, mismatch(node, "a manifest with a body"))
        return None
    values = decode_fields(node, _CHILD_TABLE, field, context)
    body = msgspec.convert(values.pop("body", ""), str)
    return Child(with_title(_record(values, node, field, context), body), body)


def _count(node: ListNode) -> int:
    """Count all descendants, so that nesting cannot bypass the limit."""
    count = len(node.items)
    for each in node.items:
        if isinstance(each, MappingNode):
            inner = (entry.node for entry in each.entries if entry.key == "children")
            count += sum(_count(listing) for listing in inner if isinstance(listing, ListNode))
    return count


def _body(node: Node, field: str, context: DecodeContext) -> str | None:
    if not isinstance(node, Scalar) or node.kind not in {"plain", "text"}:
        context.add_fault(field, node.line, mismatch(node, "the instructions as text"))
        return None
    for fault in frontmatter.body_faults(node.text):
        context.add_fault(field, node.line, fault.message)
    return node.text


def _path(field: str, key: str) -> str:
    return f"{field}.{key}" if field else key


_TABLE = FieldTable({**FIELDS, "children": decode_children})
_CHILD_TABLE = FieldTable({**FIELDS, "children": decode_children, "body": _body})
