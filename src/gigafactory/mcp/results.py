"""Results for agents: short records, and refusals with the API's messages."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gigafactory.domain.errors import Invalid, Refused, Unavailable
from gigafactory.system.terminal_escapes import strip_escapes
from gigafactory.wire.jobs import JobView
from gigafactory.wire.runs import RunView

TEXT_CHARS_MAX = 2_000
"""Longer texts, such as reasons, are truncated."""
FAULTS_MAX = 50

HEAD = (
    *("id", "name", "title", "kind", "stage", "result", "reason", "priority", "flags"),
    *("repo", "profile", "engine", "parentId", "phase", "deps", "attempts", "submittedBy"),
    *("createdAt", "stageSince", "notBefore"),
)
LINE = ("id", "name", "title", "kind", "stage", "result", "reason", "flags", "parentId", "phase")
RUN = (
    *("number", "step", "factoryId", "engine", "startedAt", "endedAt", "result", "reason"),
    *("usage", "diff"),
)


def describe_job(job: JobView) -> dict[str, Any]:
    """Return a job's details."""
    return _pick_fields(job, HEAD)


def summarize_job(job: msgspec.Struct) -> dict[str, Any]:
    """Return a job's entry in a list."""
    return _pick_fields(job, LINE)


def describe_run(run: RunView) -> dict[str, Any]:
    """Return a run: outcome, usage and verification."""
    fields = _pick_fields(run, RUN)
    if run.verify is not None:
        output = str(run.verify.get("output", ""))[-TEXT_CHARS_MAX:]
        fields["verify"] = {"passed": run.verify.get("passed"), "output": strip_escapes(output)}
    return fields


def _pick_fields(record: msgspec.Struct, names: Sequence[str]) -> dict[str, Any]:
    fields: Mapping[str, Any] = msgspec.to_builtins(record)
    picked = {name: fields.get(name) for name in names}
    return {name: _shorten(value) for name, value in picked.items() if value not in (None, [], {})}


def _shorten(value: object) -> object:
    if not isinstance(value, str) or len(value) <= TEXT_CHARS_MAX:
        return strip_escapes(value) if isinstance(value, str) else value
    return strip_escapes(value[:TEXT_CHARS_MAX]) + f"… ({len(value)} characters in all)"


def describe_refusal(refused: Refused) -> dict[str, Any]:
    """Return a refusal: code, message, located faults, and whether to try again."""
    fields: dict[str, Any] = {"code": refused.code, "detail": refused.detail}
    if isinstance(refused, Invalid) and refused.faults:
        fields["detail"] = f"{refused.what} is not valid"
        fields["faults"] = [str(fault) for fault in refused.faults[:FAULTS_MAX]]
    if isinstance(refused, Unavailable):
        fields["tryAgain"] = True
    return fields


def format_refusal(refusal: Mapping[str, Any]) -> str:
    """Return a described refusal as text."""
    lines = [f"{refusal['code']}: {refusal['detail']}", *refusal.get("faults", ())]
    if refusal.get("tryAgain"):
        lines.append("the request is fine, the service is unavailable: try again later")
    return "\n".join(lines)
