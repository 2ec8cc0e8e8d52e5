"""The page of a new job: checked while it is written, with where it would run now, and why."""

from collections.abc import Sequence
from typing import Annotated

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta

from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import HttpResponse
from gigafactory.coordinator.jobs.previews import Preview
from gigafactory.domain.errors import Fault, Invalid, Refused
from gigafactory.domain.manifest.job_file import parse_job_file
from gigafactory.web.site.rendering import GUARDED, HTML, page, rendered, see_other
from gigafactory.web.site.session import Sent, sent, visit

EXAMPLE = """---
repo: notes
priority: medium
---
# Say what is to be done

And how one sees that it is done.
"""


class Written(Sent, frozen=True, kw_only=True):
    """A job file as somebody has written it so far."""

    text: Annotated[str, Meta(max_length=1 << 20)] = ""

    @property
    def data(self) -> bytes:
        """The file; browsers end the lines of a form as old printers did."""
        return self.text.replace("\r\n", "\n").encode()


@get("/new")
async def new_page(request: ApiRequest) -> ASGIApp:
    """Show an empty job."""
    visitor = await visit(request)
    return page(request, visitor, "new.html", text=EXAMPLE, verdict=None)


@post("/new/check")
async def check(request: ApiRequest) -> ASGIApp:
    """Say what is wrong with it, line by line, or where it would run; nothing is stored."""
    visitor, form = await sent(request, Written)
    faults: Sequence[Fault] = ()
    previews: Sequence[Preview] = ()
    try:
        file = parse_job_file(form.data)
        previews = await request.coordinator.previewer.preview(visitor.caller, [file])
    except Invalid as wrong:
        faults = wrong.faults
    except Refused as refusal:
        faults = [Fault("", refusal.detail)]
    html = rendered("_verdict.html", faults=faults, previews=previews)
    return HttpResponse(200, html.encode(), media_type=HTML, headers=GUARDED)


@post("/new")
async def submit(request: ApiRequest) -> ASGIApp:
    """Submit it, and show it; what is wrong is told beside what was written."""
    visitor, form = await sent(request, Written)
    try:
        file = parse_job_file(form.data)
        taken = await request.coordinator.submissions.submit(visitor.caller, [file])
    except Invalid as wrong:
        verdict = rendered("_verdict.html", faults=wrong.faults, previews=())
        return page(request, visitor, "new.html", status=422, text=form.text, verdict=verdict)
    return see_other(f"/jobs/{taken.jobs[0].id}")


ROUTES = (new_page, check, submit)
