"""The tools on jobs: hand one in, ask how it stands, list what there is."""

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gigafactory.client import events as stories
from gigafactory.client import jobs, submissions
from gigafactory.domain.job.job import Stage
from gigafactory.mcp.job_input import Entry, job_file
from gigafactory.mcp.results import job_head, job_line, run_told
from gigafactory.mcp.tool import Fleet, Key, Reference, Takes, Tool
from gigafactory.wire.answers import Job

WAIT_MAX_S = 50
"""Clients give a call up after a minute."""
LOOK_EVERY_S = 1.0
WAITING = frozenset({Stage.QUEUED, Stage.BLOCKED})


class SubmitJob(Takes, frozen=True, kw_only=True):
    """A job, and where it belongs."""

    job: Entry
    parent: Reference | None = None
    """The composite that it becomes a child of; the agent of a job adds to its own alone."""
    key: Key | None = None


async def own_composite(fleet: Fleet, named: str | None) -> str | None:
    """The composite that is meant: the one that is named, else that of the agent's own job.

    None for whoever is no job's agent. Raises Refused.
    """
    if named is not None or fleet.job is None:
        return named
    own = await fleet.client.send(jobs.get(fleet.job))
    # A job that is part of none is named itself: the coordinator says what is wrong with that.
    return own.id if own.kind == "composite" else own.parent_id or own.id


async def submit(fleet: Fleet, asked: SubmitJob) -> object:
    """Hand in a job, as a child where there is a composite."""
    file = job_file(asked.job)
    parent = await own_composite(fleet, asked.parent)
    if parent is None:
        alone = msgspec.structs.replace(submissions.submit(file), key=asked.key)
        job = await fleet.client.send(alone)
        return {"job": job_line(job)}
    call = msgspec.structs.replace(submissions.add_children(parent, [file]), key=asked.key)
    return {"job": job_line((await fleet.client.send(call)).jobs[0])}


class JobStatus(Takes, frozen=True, kw_only=True):
    """Which job, and how long to wait for news."""

    job: Reference
    wait_seconds: Annotated[int, Meta(ge=0, le=WAIT_MAX_S)] = 0
    """Come back as soon as its stage changes, at the latest after so long."""


async def status(fleet: Fleet, asked: JobStatus) -> object:
    """Where a job stands, with its newest run, and what it waits for."""
    job = await _when_moved(fleet, asked)
    told: dict[str, Any] = {"job": job_head(job)}
    if job.runs:
        told["newestRun"] = run_told(job.runs[-1])
    if job.stage in WAITING and fleet.job is None:
        told["waitsFor"] = (await fleet.client.send(stories.explanation(job.id))).summary
    return told


async def _when_moved(fleet: Fleet, asked: JobStatus) -> Job:
    call = jobs.get(asked.job, include=["runs"])
    before = now = await fleet.client.send(call)
    try:
        async with asyncio.timeout(asked.wait_seconds):
            while now.stage is before.stage:
                await asyncio.sleep(LOOK_EVERY_S)
                now = await fleet.client.send(call)
    except TimeoutError:
        return now
    return now


class ListJobs(Takes, frozen=True, kw_only=True):
    """Which jobs, and how many at a time."""

    stage: Annotated[str, Meta(description="one stage, or several with commas between")] | None = (
        None
    )
    text: Annotated[str, Meta(max_length=200)] | None = None
    """Words that begin words of the name or the title."""
    parent: Reference | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: str | None = None
    """`nextCursor` of the page before."""


async def find(fleet: Fleet, asked: ListJobs) -> object:
    """A page of jobs, newest first."""
    wanted = jobs.Filter(**msgspec.structs.asdict(asked))
    page = await fleet.client.send(jobs.find(wanted))
    return {"jobs": [job_line(job) for job in page.jobs], "nextCursor": page.next_cursor}


SUBMIT = Tool(
    name="submit_job",
    title="Submit a job",
    tells="Hand one job in to the fleet, which finds a machine and an agent for it. The body is all"
    " that its executor will see: write it so that it stands alone. Without `parent`, the agent"
    " of a job adds to the composite that its own job is part of.",
    takes=SubmitJob,
    does=submit,
    reads=False,
)
STATUS = Tool(
    name="job_status",
    title="Ask how a job stands",
    tells="Where a job stands (its stage, result and reason), how its newest run came out, and what"
    " it waits for. To follow a job, ask again with `waitSeconds`.",
    takes=JobStatus,
    does=status,
)
LIST = Tool(
    name="list_jobs",
    title="List jobs",
    tells="List the jobs of the product, newest first, a page at a time.",
    takes=ListJobs,
    does=find,
)
