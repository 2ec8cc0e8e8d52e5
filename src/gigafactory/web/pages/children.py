"""Form that adds a child to a composite, with validation while typing."""

from collections.abc import Sequence

from litestar import get, post
from litestar.types import ASGIApp
from msgspec.structs import replace

from gigafactory.api.http.request import ApiRequest, parse_aside
from gigafactory.api.http.response import HttpResponse
from gigafactory.coordinator.jobs.submissions import SubmissionResult
from gigafactory.domain.errors import Conflict, Fault, Invalid, NotFound, Refused
from gigafactory.domain.job.job import Job
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.domain.tenancy.access import OWN_PRODUCTS, Caller
from gigafactory.web.pages.new_job import JobFileForm
from gigafactory.web.site.rendering import HTML, SECURITY_HEADERS, render, render_page, see_other
from gigafactory.web.site.session import WebSession, read_form, require_session

EXAMPLE = """---
name: next-step
deps: []
---
# Describe the task

And how to verify that it is done.
"""
FIELD_PREFIX = "jobs[0]"
"""Prefix of field names in faults; redundant on a form with one job."""


async def _composite(request: ApiRequest, caller: Caller) -> Job:
    """Return the composite named in the URL.

    Raises Forbidden, NotFound.
    """
    caller.require("submit", OWN_PRODUCTS)
    job = await request.coordinator.jobs.get(caller, request.path_name("job_id", "job"))
    if not job.composite:
        raise NotFound("composite", job.id, "the job is a leaf; only composites have children")
    return job


def _form_page(
    request: ApiRequest,
    session: WebSession,
    job: Job,
    text: str = EXAMPLE,
    refusal: Refused | None = None,
) -> ASGIApp:
    verdict = _verdict(job, _faults(refusal) if refusal else ())
    status = 200 if refusal is None else 422 if isinstance(refusal, Invalid) else 409
    return render_page(
        request, session, "children.html", status=status, job=job, text=text, verdict=verdict
    )


def _verdict(job: Job, faults: Sequence[Fault], result: SubmissionResult | None = None) -> str:
    return render("_child_verdict.html", job=job, faults=faults, result=result)


def _faults(refusal: Refused) -> Sequence[Fault]:
    if not isinstance(refusal, Invalid):
        return [Fault("", refusal.detail)]
    return [
        replace(each, field=each.field.removeprefix(FIELD_PREFIX).removeprefix("."))
        for each in refusal.faults
    ]


@get("/jobs/{job_id:str}/children")
async def children_page(request: ApiRequest) -> ASGIApp:
    """Show the form with an example."""
    session = await require_session(request)
    return _form_page(request, session, await _composite(request, session.caller))


@post("/jobs/{job_id:str}/children/check")
async def check_child(request: ApiRequest) -> ASGIApp:
    """Validate the job file and describe the result; store nothing."""
    session, form = await read_form(request, JobFileForm)
    job = await _composite(request, session.caller)
    try:
        file = await parse_aside(parse_job_file, form.data)
        plan = await request.coordinator.submissions.plan_children(session.caller, [file], job)
        html = _verdict(job, (), plan.value)
    except Refused as refusal:
        html = _verdict(job, _faults(refusal))
    return HttpResponse(200, html.encode(), media_type=HTML, headers=SECURITY_HEADERS)


@post("/jobs/{job_id:str}/children")
async def add_child(request: ApiRequest) -> ASGIApp:
    """Add the child and redirect to the roadmap; show faults next to the text."""
    session, form = await read_form(request, JobFileForm)
    job = await _composite(request, session.caller)
    try:
        file = await parse_aside(parse_job_file, form.data)
        await request.coordinator.submissions.add_children(session.caller, job.id, [file])
    except (Invalid, Conflict) as refusal:
        return _form_page(request, session, job, form.text, refusal)
    return see_other(f"/jobs/{job.id}/roadmap")


ROUTES = (children_page, check_child, add_child)
