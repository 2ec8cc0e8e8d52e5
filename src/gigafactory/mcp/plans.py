"""MCP tools for composites: submit a plan, get its status."""

from itertools import dropwhile, islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gigafactory.client import jobs as composites
from gigafactory.client import submissions
from gigafactory.domain.errors import Fault, Invalid
from gigafactory.domain.job.job import Stage
from gigafactory.domain.manifest.job_file import CHILDREN_MAX
from gigafactory.mcp.job_input import Entry, job_files
from gigafactory.mcp.jobs import resolve_composite
from gigafactory.mcp.results import summarize_job
from gigafactory.mcp.tool import Key, McpTool, Reference, ToolArguments, ToolContext
from gigafactory.wire.composites import RollupView

JOBS_MAX = 50
"""Jobs returned at most; `plan_status` lists the rest of a large plan."""
NO_COMPOSITE = "is missing: name a composite; only a job's agent has one by default"


class HandInPlan(ToolArguments, frozen=True, kw_only=True):
    """Arguments of `hand_in_plan`."""

    children: Annotated[list[Entry], Meta(min_length=1, max_length=CHILDREN_MAX)]
    parent: Reference | None = None
    """The composite; a job's agent can only submit plans for its own composite."""
    key: Key | None = None


async def hand_in(fleet: ToolContext, arguments: HandInPlan) -> object:
    """Add children to a composite, all or none."""
    files = job_files(arguments.children)
    parent = _require_composite(await resolve_composite(fleet, arguments.parent), "parent")
    call = msgspec.structs.replace(
        submissions.add_children(parent, files), idempotency_key=arguments.key
    )
    jobs = (await fleet.client.send(call)).jobs
    listed = [summarize_job(job) for job in jobs[:JOBS_MAX]]
    return {"taken": len(jobs), "jobs": listed, "more": len(jobs) > JOBS_MAX}


class PlanStatus(ToolArguments, frozen=True, kw_only=True):
    """Arguments of `plan_status`."""

    composite: Reference | None = None
    """By default, the composite that the agent's own job belongs to."""
    stage: Stage | None = None
    """Only jobs in this stage."""
    after: Annotated[str, Meta(max_length=200)] | None = None
    """`nextAfter` of the previous page."""
    limit: Annotated[int, Meta(ge=1, le=200)] = JOBS_MAX


async def status(fleet: ToolContext, arguments: PlanStatus) -> object:
    """Return the roll-up of a composite and a page of its jobs."""
    composite = _require_composite(await resolve_composite(fleet, arguments.composite), "composite")
    dag = await fleet.client.send(composites.dag(composite))
    left = iter(dag.nodes)
    if arguments.after is not None:
        left = iter(list(dropwhile(lambda node: node.id != arguments.after, dag.nodes))[1:])
    fitting = (node for node in left if arguments.stage in (None, node.stage))
    page = list(islice(fitting, arguments.limit))
    more = next(fitting, None) is not None
    return {
        "rollup": _describe_rollup(dag.rollup),
        "jobs": [summarize_job(node) | {"deps": node.deps} for node in page],
        "nextAfter": page[-1].id if more else None,
    }


def _describe_rollup(rollup: RollupView) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(rollup)
    for name in ("blocked", "failed"):
        fields[name] = fields[name][:JOBS_MAX]
    return fields


def _require_composite(composite: str | None, field: str) -> str:
    if composite is None:
        raise Invalid("the call", [Fault(field, NO_COMPOSITE)])
    return composite


HAND_IN = McpTool(
    name="hand_in_plan",
    title="Submit a plan",
    description="Give a composite its children: the whole plan at once, all accepted or none."
    " `deps` names other entries; each `phase` waits for a person's approval. Submitting again"
    " keeps shipped and running jobs, and replaces waiting jobs whose content changed.",
    arguments=HandInPlan,
    run=hand_in,
    read_only=False,
)
STATUS = McpTool(
    name="plan_status",
    title="Get a plan's status",
    description="Get the progress of a composite: the roll-up of all its jobs, and the jobs"
    " themselves, one page at a time.",
    arguments=PlanStatus,
    run=status,
)
