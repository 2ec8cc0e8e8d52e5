"""MCP tools for jobs: submit, status, list."""

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gigafactory.client import events as stories
from gigafactory.client import jobs, submissions
from gigafactory.domain.job.job import Stage
from gigafactory.mcp.job_input import Entry, job_file
from gigafactory.mcp.results import describe_job, describe_run, summarize_job
from gigafactory.mcp.tool import Key, McpTool, Reference, ToolArguments, ToolContext
from gigafactory.wire.jobs import JobFilter, JobView

WAIT_MAX_S = 50
"""MCP clients time out after a minute."""
LOOK_EVERY_S = 1.0
WAITING = frozenset({Stage.QUEUED, Stage.BLOCKED})


class SubmitJob(ToolArguments, frozen=True, kw_only=True):
    """Arguments of `submit_job`."""

    job: Entry
    parent: Reference | None = None
    """The composite to add the job to; a job's agent can only add to its own composite."""
    key: Key | None = None


async def resolve_composite(fleet: ToolContext, reference: str | None) -> str | None:
    """Return the referenced composite, by default the one of the agent's own job.

    None if the caller is not a job's agent. Raises Refused.
    """
    if reference is not None or fleet.job is None:
        return reference
    own = await fleet.client.send(jobs.get(fleet.job))
    # A job outside any composite resolves to itself: the coordinator refuses it with a reason.
    return own.id if own.kind == "composite" else own.parent_id or own.id


async def submit(fleet: ToolContext, arguments: SubmitJob) -> object:
    """Submit a job, as a child if there is a composite."""
    file = job_file(arguments.job)
    parent = await resolve_composite(fleet, arguments.parent)
    if parent is None:
        submission = msgspec.structs.replace(
            submissions.submit(file), idempotency_key=arguments.key
        )
        job = await fleet.client.send(submission)
        return {"job": summarize_job(job)}
    call = msgspec.structs.replace(
        submissions.add_children(parent, [file]), idempotency_key=arguments.key
    )
    return {"job": summarize_job((await fleet.client.send(call)).jobs[0])}


class JobStatus(ToolArguments, frozen=True, kw_only=True):
    """Arguments of `job_status`."""

    job: Reference
    wait_seconds: Annotated[int, Meta(ge=0, le=WAIT_MAX_S)] = 0
    """Wait up to this long for the stage to change."""


async def status(fleet: ToolContext, arguments: JobStatus) -> object:
    """Describe a job, its newest run and what it waits for."""
    job = await _wait_for_change(fleet, arguments)
    answer: dict[str, Any] = {"job": describe_job(job)}
    if job.runs:
        answer["newestRun"] = describe_run(job.runs[-1])
    if job.stage in WAITING and fleet.job is None:
        answer["waitsFor"] = (await fleet.client.send(stories.explanation(job.id))).summary
    return answer


async def _wait_for_change(fleet: ToolContext, arguments: JobStatus) -> JobView:
    call = jobs.get(arguments.job, include=["runs"])
    before = now = await fleet.client.send(call)
    try:
        async with asyncio.timeout(arguments.wait_seconds):
            while now.stage is before.stage:
                await asyncio.sleep(LOOK_EVERY_S)
                now = await fleet.client.send(call)
    except TimeoutError:
        return now
    return now


class ListJobs(ToolArguments, frozen=True, kw_only=True):
    """Arguments of `list_jobs`."""

    stage: Annotated[str, Meta(description="one stage, or several separated by commas")] | None = (
        None
    )
    text: Annotated[str, Meta(max_length=200)] | None = None
    """Prefixes of words in the name or title."""
    parent: Reference | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: str | None = None
    """`nextCursor` of the previous page."""


async def find(fleet: ToolContext, arguments: ListJobs) -> object:
    """Return a page of jobs, newest first."""
    wanted = JobFilter(**msgspec.structs.asdict(arguments))
    page = await fleet.client.send(jobs.find(wanted))
    return {
        "jobs": [summarize_job(job) for job in page.jobs],
        "nextCursor": page.next_cursor or None,
    }


SUBMIT = McpTool(
    name="submit_job",
    title="Submit a job",
    description="Submit one job to the fleet, which chooses a machine and an agent for it. The"
    " executor sees only the body: make it self-contained. Without `parent`, a job's agent adds"
    " to the composite that its own job belongs to.",
    arguments=SubmitJob,
    run=submit,
    read_only=False,
)
STATUS = McpTool(
    name="job_status",
    title="Get a job's status",
    description="Get a job's stage, result and reason, the outcome of its newest run, and what it"
    " waits for. To follow a job, call again with `waitSeconds`.",
    arguments=JobStatus,
    run=status,
)
LIST = McpTool(
    name="list_jobs",
    title="List jobs",
    description="List the product's jobs, newest first, one page at a time.",
    arguments=ListJobs,
    run=find,
)
