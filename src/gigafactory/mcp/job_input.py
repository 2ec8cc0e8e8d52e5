"""Parse the jobs that an agent submits: manifest fields plus the instructions as `body`."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.manifest.decoder import camel
from gigafactory.domain.manifest.fields import FIELDS
from gigafactory.domain.manifest.job_file import parse_json
from gigafactory.domain.manifest.manifest import JobFile

FIRST = "children[0]"

Entry = Annotated[
    dict[str, Any],
    Meta(
        description="one job: its instructions as `body`, and any field of a manifest in camelCase,"
        " such as name, title, repo, profile, engine, deps (names), phase, verify (a command),"
        " allowedScope, priority, budget",
        extra_json_schema={
            "properties": {"body": {"type": "string"}, **{camel(name): {} for name in FIELDS}},
            "required": ["body"],
        },
    ),
]


def job_files(entries: Sequence[Mapping[str, Any]]) -> list[JobFile]:
    """Parse the jobs of a plan.

    Raises Invalid with the faults of all jobs, each with its location.
    """
    plan = parse_json({"kind": "composite", "children": list(entries)})
    return [JobFile(child.manifest, child.body) for child in plan.children]


def job_file(entry: Mapping[str, Any]) -> JobFile:
    """Parse one job.

    Raises Invalid with all of its faults.
    """
    try:
        return job_files([entry])[0]
    except Invalid as wrong:
        raise Invalid("the job", [_without_location(fault) for fault in wrong.faults]) from None


def _without_location(fault: Fault) -> Fault:
    return Fault(fault.field.removeprefix(FIRST).removeprefix("."), fault.message)
