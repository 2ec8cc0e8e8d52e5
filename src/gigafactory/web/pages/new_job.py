"""Form for a new job, with validation and a placement preview while typing."""

from collections.abc import Sequence
from typing import Annotated

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta

from gigafactory.api.http.request import ApiRequest, parse_aside
from gigafactory.api.http.response import HttpResponse
from gigafactory.coordinator.jobs.previews import Preview
from gigafactory.domain.errors import Fault, Invalid, Refused
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.domain.tenancy.access import OWN_PRODUCTS
from gigafactory.web.site.rendering import HTML, SECURITY_HEADERS, render, render_page, see_other
from gigafactory.web.site.session import WebForm, read_form, require_session

EXAMPLE = """---
repo: notes
priority: medium
---
# Describe the task

And how to verify that it is done.
"""


class JobFileForm(WebForm, frozen=True, kw_only=True):
    """The text of a job file."""

    text: Annotated[str, Meta(max_length=1 << 20)] = ""

    @property
    def data(self) -> bytes:
        """The file with LF line ends; browsers send CRLF."""
        return self.text.replace("\r\n", "\n").encode()


@get("/new")
async def new_page(request: ApiRequest) -> ASGIApp:
    """Show the form with an example."""
    session = await require_session(request)
    return render_page(request, session, "new.html", text=EXAMPLE, verdict=None)


@post("/new/check")
async def check(request: ApiRequest) -> ASGIApp:
    """Validate the job file and preview where it would run; store nothing."""
    session, form = await read_form(request, JobFileForm)
    faults: Sequence[Fault] = ()
    previews: Sequence[Preview] = ()
    try:
        session.caller.require("submit", OWN_PRODUCTS)
        file = await parse_aside(parse_job_file, form.data)
        previews = await request.coordinator.previewer.preview(session.caller, [file])
    except Invalid as wrong:
        faults = wrong.faults
    except Refused as refusal:
        faults = [Fault("", refusal.detail)]
    html = render("_verdict.html", faults=faults, previews=previews)
    return HttpResponse(200, html.encode(), media_type=HTML, headers=SECURITY_HEADERS)


@post("/new")
async def submit(request: ApiRequest) -> ASGIApp:
    """Submit the job and redirect to its page; show faults next to the text."""
    session, form = await read_form(request, JobFileForm)
    session.caller.require("submit", OWN_PRODUCTS)
    try:
        file = await parse_aside(parse_job_file, form.data)
        submitted = await request.coordinator.submissions.submit(session.caller, [file])
    except Invalid as wrong:
        verdict = render("_verdict.html", faults=wrong.faults, previews=())
        return render_page(
            request, session, "new.html", status=422, text=form.text, verdict=verdict
        )
    return see_other(f"/jobs/{submitted.jobs[0].id}")


ROUTES = (new_page, check, submit)
