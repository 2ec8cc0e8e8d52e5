"""What an agent is told: short enough to read, and refusals in the sentences of the API."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gigafactory.domain.errors import Invalid, Refused, Unavailable
from gigafactory.system.terminal_escapes import bare
from gigafactory.wire.answers import Job, Run

TEXT_CHARS_MAX = 2_000
"""Texts that come from elsewhere, such as reasons, are cut after this."""
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


def job_head(job: Job) -> dict[str, Any]:
    """A job as it is told when it is asked for by itself."""
    return _some(job, HEAD)


def job_line(job: msgspec.Struct) -> dict[str, Any]:
    """A job as it is told among others."""
    return _some(job, LINE)


def run_told(run: Run) -> dict[str, Any]:
    """A run: how it came out, what it used, and whether its work was found good."""
    told = _some(run, RUN)
    if run.verify is not None:
        output = str(run.verify.get("output", ""))[-TEXT_CHARS_MAX:]
        told["verify"] = {"passed": run.verify.get("passed"), "output": bare(output)}
    return told


def _some(record: msgspec.Struct, names: Sequence[str]) -> dict[str, Any]:
    """These fields of a record, as far as there is something in them."""
    given: Mapping[str, Any] = msgspec.to_builtins(record)
    found = {name: given.get(name) for name in names}
    return {name: _cut(value) for name, value in found.items() if value not in (None, [], {})}


def _cut(value: object) -> object:
    if not isinstance(value, str) or len(value) <= TEXT_CHARS_MAX:
        return bare(value) if isinstance(value, str) else value
    return bare(value[:TEXT_CHARS_MAX]) + f"… ({len(value)} characters in all)"


def refusal_told(refused: Refused) -> dict[str, Any]:
    """A refusal: its code, its sentence, each fault with its place, and whether to try again."""
    told: dict[str, Any] = {"code": refused.code, "detail": refused.detail}
    if isinstance(refused, Invalid) and refused.faults:
        told["detail"] = f"{refused.what} is not valid"
        told["faults"] = [str(fault) for fault in refused.faults[:FAULTS_MAX]]
    if isinstance(refused, Unavailable):
        told["tryAgain"] = True
    return told


def in_words(refusal: Mapping[str, Any]) -> str:
    """A refusal as text."""
    lines = [f"{refusal['code']}: {refusal['detail']}", *refusal.get("faults", ())]
    if refusal.get("tryAgain"):
        lines.append("nothing is wrong with the request: try again in a while")
    return "\n".join(lines)
