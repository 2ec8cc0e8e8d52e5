"""Profiles: the role of a job, with persona, capabilities, default gates and scope."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.manifest import frontmatter
from gigafactory.domain.manifest.decoder import (
    DecodeContext,
    FieldTable,
    decode_fields,
    mapping_from_json,
    one_of,
    text,
)
from gigafactory.domain.manifest.fields import SCRIPT_CHARS_MAX, SHARED_FIELDS
from gigafactory.domain.manifest.manifest import (
    EngineClass,
    MergeStyle,
    ReviewPolicy,
    Sandbox,
    ScopeEnforcement,
    Ship,
    ShipPolicy,
)
from gigafactory.domain.manifest.names import script, slug
from gigafactory.domain.manifest.yaml_node import MappingEntry, MappingNode, Scalar

PERSONA_CHARS_MAX = 64 * 1024


class Profile(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One immutable version of a profile; None and () mean not set."""

    name: str
    version: int = 1
    product_id: str | None = None
    """None for a built-in profile."""
    persona: str = ""
    capabilities: tuple[str, ...] = ()
    default_verify: str | None = None
    default_setup: str | None = None
    engine_class: EngineClass | None = None
    prefers_engine: tuple[str, ...] = ()
    model: str | None = None
    allowed_scope: tuple[str, ...] = ()
    review_policy: ReviewPolicy | None = None
    ship: Ship | None = None
    ship_policy: ShipPolicy | None = None
    merge_style: MergeStyle | None = None
    wait_merge: bool | None = None
    verify_rounds: int | None = None
    stall: timedelta | None = None
    sandbox: Sandbox | None = None
    scope_enforcement: ScopeEnforcement = "deny"
    # Keys defined by the author: their values can be any JSON.
    extra: dict[str, Any] = {}
    """The keys that start with `x-`, unchanged."""


def parse_profile_file(text: bytes | str) -> Profile:
    """Parse a profile file, whose body is the persona; Invalid lists every fault."""
    document = frontmatter.parse_document(text)
    context = DecodeContext(faults=document.faults)
    return _profile(document.fields, document.body.strip(), context)


def parse_profile_json(obj: Mapping[str, object]) -> Profile:
    """Parse a camelCase JSON profile; Invalid lists every fault."""
    context = DecodeContext(camel=True)
    return _profile(mapping_from_json(obj, context), "", context)


def unknown_profile(reference: str, known: Iterable[str]) -> Invalid:
    """Return the error for an unknown profile, listing the known ones."""
    names = ", ".join(sorted(known)) or "none yet"
    message = f"found {reference!r}, which is unknown; expected one of {names}"
    return Invalid("the manifest", [Fault("profile", message)])


def _profile(node: MappingNode, body: str, context: DecodeContext) -> Profile:
    values = decode_fields(node, _TABLE, "", context)
    if body and "persona" in values:
        fault_text = "found a persona and a body; expected one of them"
        context.add_fault("persona", node.line_of("persona"), fault_text)
    elif len(body) > PERSONA_CHARS_MAX:
        fault_text = f"found {len(body)} characters; expected at most {PERSONA_CHARS_MAX}"
        context.add_fault("persona", None, fault_text)
    elif body:
        values["persona"] = body
    if "name" not in values and not any(_is_given(e) for e in node.entries if e.key == "name"):
        context.add_fault(
            "name", node.line_of("name"), "found nothing; expected the profile's name"
        )
    context.raise_faults("the profile")
    return msgspec.convert(values, Profile)


def _is_given(entry: MappingEntry) -> bool:
    return not (isinstance(entry.node, Scalar) and entry.node.kind == "null")


def _persona(written: str) -> str:
    return script(written, chars_max=PERSONA_CHARS_MAX).strip()


def _script(written: str) -> str:
    return script(written, chars_max=SCRIPT_CHARS_MAX)


_TABLE = FieldTable(
    {
        **SHARED_FIELDS,
        "name": text(slug),
        "persona": text(_persona),
        "default-verify": text(_script),
        "default-setup": text(_script),
        "scope-enforcement": one_of("warn", "deny"),
    }
)
