"""The page of a job's diff: a list of files, the lines, and comments that go back in one piece."""

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.http.request import ApiRequest
from gigafactory.domain.errors import NotFound
from gigafactory.domain.job.lifecycle import actions_of
from gigafactory.domain.tenancy.access import ROLES_BY_VERB
from gigafactory.web.presenters.diff import files_in
from gigafactory.web.site.rendering import page
from gigafactory.web.site.session import visit

DECISIONS = ("approve", "request-changes", "reject")


@get("/jobs/{job_id:str}/diff")
async def diff_page(request: ApiRequest) -> ASGIApp:
    """Show what the newest run has changed; a job without a diff says why."""
    visitor = await visit(request)
    caller, coordinator = visitor.caller, request.coordinator
    job = await coordinator.jobs.get(caller, request.path_name("job_id", "job"))
    try:
        diff, why = await coordinator.diffs.get(caller, job.id), ""
    except NotFound as none:
        diff, why = None, none.detail
    open_to = actions_of(job)
    return page(
        request,
        visitor,
        "diff.html",
        job=job,
        diff=diff,
        why=why,
        files=files_in(diff.text) if diff else [],
        may=[each for each in DECISIONS if each in open_to and caller.role in ROLES_BY_VERB[each]],
    )


ROUTES = (diff_page,)
