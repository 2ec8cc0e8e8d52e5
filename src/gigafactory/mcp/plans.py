"""The tools on composites: hand a plan in, and see how far it has got."""

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
from gigafactory.mcp.jobs import own_composite
from gigafactory.mcp.results import job_line
from gigafactory.mcp.tool import Fleet, Key, Reference, Takes, Tool

TOLD_MAX = 50
"""Of a large plan so many jobs are told; the others are found by `plan_status`."""
NO_COMPOSITE = "expected the composite that is meant: you are no job's agent, which has one"


class HandInPlan(Takes, frozen=True, kw_only=True):
    """The children of a composite."""

    children: Annotated[list[Entry], Meta(min_length=1, max_length=CHILDREN_MAX)]
    parent: Reference | None = None
    """The composite; the agent of a job hands plans in for its own alone."""
    key: Key | None = None


async def hand_in(fleet: Fleet, asked: HandInPlan) -> object:
    """Give a composite these children, all or none."""
    files = job_files(asked.children)
    parent = _meant(await own_composite(fleet, asked.parent), "parent")
    call = msgspec.structs.replace(submissions.add_children(parent, files), key=asked.key)
    taken = (await fleet.client.send(call)).jobs
    told = [job_line(job) for job in taken[:TOLD_MAX]]
    return {"taken": len(taken), "jobs": told, "more": len(taken) > TOLD_MAX}


class PlanStatus(Takes, frozen=True, kw_only=True):
    """Which composite, and which part of it."""

    composite: Reference | None = None
    """By default the one that the agent's own job is part of."""
    stage: Stage | None = None
    """Only jobs in this stage."""
    after: Annotated[str, Meta(max_length=200)] | None = None
    """`nextAfter` of the page before."""
    limit: Annotated[int, Meta(ge=1, le=200)] = TOLD_MAX


async def status(fleet: Fleet, asked: PlanStatus) -> object:
    """What a composite comes to, and a page of the jobs below it."""
    meant = _meant(await own_composite(fleet, asked.composite), "composite")
    dag = await fleet.client.send(composites.dag(meant))
    left = iter(dag.nodes)
    if asked.after is not None:
        left = iter(list(dropwhile(lambda node: node.id != asked.after, dag.nodes))[1:])
    fitting = (node for node in left if asked.stage in (None, node.stage))
    page = list(islice(fitting, asked.limit))
    more = next(fitting, None) is not None
    return {
        "rollup": _summed(dag.rollup),
        "jobs": [job_line(node) | {"deps": node.deps} for node in page],
        "nextAfter": page[-1].id if more else None,
    }


def _summed(rollup: composites.Rollup) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(rollup)
    for name in ("blocked", "failed"):
        told[name] = told[name][:TOLD_MAX]
    return told


def _meant(composite: str | None, field: str) -> str:
    if composite is None:
        raise Invalid("the call", [Fault(field, NO_COMPOSITE)])
    return composite


HAND_IN = Tool(
    name="hand_in_plan",
    title="Hand in a plan",
    tells="Give a composite its children: the whole plan at once, all taken or none. `deps` name"
    " other entries, `phase` numbers the points at which a person looks. Handed in again, what has"
    " shipped or is under way is left alone, and what waits with other content gives way.",
    takes=HandInPlan,
    does=hand_in,
    reads=False,
)
STATUS = Tool(
    name="plan_status",
    title="Ask how a plan stands",
    tells="How far a composite has got: the sum of all below it, and its jobs, a page at a time.",
    takes=PlanStatus,
    does=status,
)
