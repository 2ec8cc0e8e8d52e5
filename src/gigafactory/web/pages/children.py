"""The page on which a composite gets another child: checked while it is written."""

from collections.abc import Sequence

from litestar import get, post
from litestar.types import ASGIApp
from msgspec.structs import replace

from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import HttpResponse
from gigafactory.coordinator.jobs.submissions import SubmissionResult
from gigafactory.domain.errors import Conflict, Fault, Invalid, NotFound, Refused
from gigafactory.domain.job.job import Job
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.domain.tenancy.access import Caller
from gigafactory.web.pages.new_job import Written
from gigafactory.web.site.rendering import GUARDED, HTML, page, rendered, see_other
from gigafactory.web.site.session import Visit, sent, visit

EXAMPLE = """---
name: next-step
deps: []
---
# Say what is to be done

And how one sees that it is done.
"""
PLACE = "jobs[0]"
"""Where the coordinator finds faults: here there is one job alone, and that says nothing."""


async def _composite(request: ApiRequest, caller: Caller) -> Job:
    """The job in the address, for whoever may add to it.

    Raises Forbidden, NotFound.
    """
    caller.require("submit")
    job = await request.coordinator.jobs.get(caller, request.path_name("job_id", "job"))
    if not job.composite:
        raise NotFound("composite", job.id, "it is a leaf, and has no children")
    return job


def _shown(
    request: ApiRequest,
    visitor: Visit,
    job: Job,
    text: str = EXAMPLE,
    refusal: Refused | None = None,
) -> ASGIApp:
    verdict = _verdict(job, _faults(refusal) if refusal else ())
    status = 200 if refusal is None else 422 if isinstance(refusal, Invalid) else 409
    return page(
        request, visitor, "children.html", status=status, job=job, text=text, verdict=verdict
    )


def _verdict(job: Job, faults: Sequence[Fault], taken: SubmissionResult | None = None) -> str:
    return rendered("_child_verdict.html", job=job, faults=faults, taken=taken)


def _faults(refusal: Refused) -> Sequence[Fault]:
    if not isinstance(refusal, Invalid):
        return [Fault("", refusal.detail)]
    return [
        replace(each, field=each.field.removeprefix(PLACE).removeprefix("."))
        for each in refusal.faults
    ]


@get("/jobs/{job_id:str}/children")
async def children_page(request: ApiRequest) -> ASGIApp:
    """Show an empty child."""
    visitor = await visit(request)
    return _shown(request, visitor, await _composite(request, visitor.caller))


@post("/jobs/{job_id:str}/children/check")
async def check_child(request: ApiRequest) -> ASGIApp:
    """Say what is wrong with it, line by line, or what it would become; nothing is stored."""
    visitor, form = await sent(request, Written)
    job = await _composite(request, visitor.caller)
    try:
        file = parse_job_file(form.data)
        plan = await request.coordinator.submissions.plan_children(visitor.caller, [file], job)
        html = _verdict(job, (), plan.value)
    except Refused as refusal:
        html = _verdict(job, _faults(refusal))
    return HttpResponse(200, html.encode(), media_type=HTML, headers=GUARDED)


@post("/jobs/{job_id:str}/children")
async def add_child(request: ApiRequest) -> ASGIApp:
    """Add it, and show the roadmap; what is wrong is told beside what was written."""
    visitor, form = await sent(request, Written)
    job = await _composite(request, visitor.caller)
    try:
        file = parse_job_file(form.data)
        await request.coordinator.submissions.add_children(visitor.caller, job.id, [file])
    except (Invalid, Conflict) as refusal:
        return _shown(request, visitor, job, form.text, refusal)
    return see_other(f"/jobs/{job.id}/roadmap")


ROUTES = (children_page, check_child, add_child)
