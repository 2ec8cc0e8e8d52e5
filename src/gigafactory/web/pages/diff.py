"""Diff page: changed files and lines, with comments sent together as one review."""

import asyncio

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.http.request import ApiRequest
from gigafactory.domain.errors import NotFound
from gigafactory.domain.job.lifecycle import actions_of
from gigafactory.domain.tenancy.access import ROLES_BY_VERB
from gigafactory.web.presenters.diff import parse_diff
from gigafactory.web.site.rendering import render_page
from gigafactory.web.site.session import require_session

SHORT_CHARS = 32 * 1024
DECISIONS = ("approve", "request-changes", "reject")


@get("/jobs/{job_id:str}/diff")
async def diff_page(request: ApiRequest) -> ASGIApp:
    """Show the changes of the latest run, or why there is no diff."""
    session = await require_session(request)
    caller, coordinator = session.caller, request.coordinator
    job = await coordinator.jobs.get(caller, request.path_name("job_id", "job"))
    try:
        diff, why = await coordinator.diffs.get(caller, job.id), ""
    except NotFound as refusal:
        diff, why = None, refusal.detail
    available = actions_of(job)

    def show() -> ASGIApp:
        return render_page(
            request,
            session,
            "diff.html",
            job=job,
            diff=diff,
            why=why,
            files=parse_diff(diff.text) if diff else [],
            may=[
                each
                for each in DECISIONS
                if each in available and caller.role in ROLES_BY_VERB[each]
            ],
        )

    # A long diff takes a second.
    return await asyncio.to_thread(show) if diff and len(diff.text) > SHORT_CHARS else show()


ROUTES = (diff_page,)
