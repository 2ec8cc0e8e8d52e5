"""Encode manifests and profiles to JSON and job files, so that decoding returns the same."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache

import yaml

from gigafactory.domain.manifest.decoder import camel
from gigafactory.domain.manifest.manifest import Child, JobBudget, Manifest, Retry, ReviewPolicy
from gigafactory.domain.manifest.profile import Profile
from gigafactory.domain.manifest.units import format_duration, format_usd


def manifest_to_json(manifest: Manifest) -> dict[str, object]:
    """Return the set fields as camelCase JSON, in the notation of people: `4h`, `0.25`, `auto`."""
    return _encode(manifest, camel)


def profile_to_json(profile: Profile) -> dict[str, object]:
    """Return the set fields of a profile as camelCase JSON, in the notation of people."""
    return _encode(profile, camel)


def format_job_file(manifest: Manifest, body: str) -> str:
    """Return the text of a job file: frontmatter and the unchanged body."""
    fields = _encode(manifest, str)
    if not fields:
        # A body that begins like frontmatter must not be read as such.
        return f"---\n---\n{body}" if body.lstrip("\ufeff").startswith("---") else body
    front_matter = yaml.dump(
        fields, Dumper=_YamlDumper, sort_keys=False, allow_unicode=True, width=1000
    )
    return f"---\n{front_matter}---\n{body}"


class _YamlDumper(yaml.SafeDumper):
    """A YAML dumper that escapes rare line ends, which single quotes would fold."""


def _represent_text(writer: _YamlDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _FOLDED.intersection(text) else None
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_FOLDED = frozenset("\x85\u2028\u2029")
_YamlDumper.add_representer(str, _represent_text)


def _encode(manifest: Manifest | Profile, spelling: Callable[[str], str]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name in manifest.__struct_fields__:
        value = getattr(manifest, name)
        if not value and (value is None or value in ((), {})):
            continue
        if type(value) is str:
            fields[_key(name, spelling)] = value
        elif name != "extra":
            fields[_key(name, spelling)] = _value(value, spelling)
    return {**fields, **manifest.extra}


@cache
def _key(name: str, spelling: Callable[[str], str]) -> str:
    """Return the key of a field; `delay` is written as `not-before`."""
    return spelling("not-before" if name == "delay" else name.replace("_", "-"))


def _value(value: object, spelling: Callable[[str], str]) -> object:
    match value:
        case str():
            return value
        case timedelta() | datetime():
            return _time(value)
        case JobBudget() | Retry() | ReviewPolicy():
            parts = _parts(value)
            return parts if isinstance(parts, str) else _encode_present(parts, spelling)
        case Child():
            return {**_encode(value.manifest, spelling), "body": value.body}
        case tuple():
            return [_value(item, spelling) for item in value]
        case _:
            return value


def _time(value: timedelta | datetime) -> str:
    if isinstance(value, timedelta):
        return format_duration(value)
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parts(value: JobBudget | Retry | ReviewPolicy) -> dict[str, object] | str:
    match value:
        case JobBudget():
            usd = None if value.usd_nanos is None else format_usd(value.usd_nanos)
            return {"usd": usd, "tokens": value.tokens, "wall": value.wall}
        case Retry():
            return {"max": value.max, "backoff": value.backoff, "on": value.on}
        case ReviewPolicy(mode="reviewers"):
            return {"reviewers": value.reviewers, "quorum": value.quorum}
        case _:
            return value.mode


def _encode_present(values: dict[str, object], spelling: Callable[[str], str]) -> dict[str, object]:
    return {
        key: _value(value, spelling) for key, value in values.items() if value not in (None, ())
    }
