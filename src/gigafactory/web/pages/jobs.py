"""Job list as a table or board, with filters in the URL and bulk actions."""

from collections.abc import Mapping, Sequence
from typing import Annotated
from urllib.parse import parse_qsl, urlencode

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace

from gigafactory.api.http.decoding import decode_query
from gigafactory.api.http.request import ApiRequest
from gigafactory.coordinator.core.ports import JobQuery
from gigafactory.coordinator.lifecycle.actions import ActionRequest
from gigafactory.domain.errors import Refused
from gigafactory.domain.job.job import Job, Priority, Stage
from gigafactory.domain.job.lifecycle import ACTIONS
from gigafactory.domain.tenancy.access import ROLES_BY_VERB, Caller
from gigafactory.web.site.live import Part, PartKey, current_part, stream_part
from gigafactory.web.site.rendering import render, render_page, see_other
from gigafactory.web.site.session import WebForm, WebSession, read_form, require_session
from gigafactory.wire.jobs import Stages

PAGE_SIZE = 50
COLUMN_MAX = 25
BULK_ACTIONS = ("cancel", "requeue", "approve", "ship", "promote")
FilterText = Annotated[str, Meta(max_length=200)]


class JobFilters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Filters of the job list."""

    view: Annotated[str, Meta(pattern=r"^(table|board)$(?!\n)")] = "table"
    stage: Stages | None = None
    q: FilterText | None = None
    repo: FilterText | None = None
    engine: FilterText | None = None
    profile: FilterText | None = None
    factory: FilterText | None = None
    priority: Priority | None = None
    after: FilterText | None = None

    def query(self) -> JobQuery:
        """Return the query for the store, with a limit one above the page size."""
        return JobQuery(
            stages=tuple(map(Stage, self.stage.split(","))) if self.stage else (),
            text=self.q,
            repo=self.repo,
            engine=self.engine,
            profile=self.profile,
            factory_id=self.factory,
            priority=self.priority,
            after=self.after,
            limit=PAGE_SIZE + 1,
        )

    def url(self, **changes: object) -> str:
        """Return the URL of this list with some filters changed."""
        values = to_builtins(replace(self, **changes))
        return f"/jobs?{urlencode(values)}" if values else "/jobs"


def _filters(request: ApiRequest) -> JobFilters:
    """Return the filters of the URL, without those that the form left empty.

    Raises Invalid.
    """
    given = parse_qsl(request.scope["query_string"].decode("latin-1"))
    return decode_query(urlencode(given).encode(), JobFilters)


async def _page(
    request: ApiRequest, caller: Caller, filters: JobFilters
) -> tuple[Sequence[Job], bool]:
    page = await request.coordinator.jobs.find(caller, filters.query())
    return page[:PAGE_SIZE], len(page) > PAGE_SIZE


async def _board(
    request: ApiRequest, caller: Caller, filters: JobFilters
) -> Mapping[Stage, Sequence[Job]]:
    stages = filters.query().stages or tuple(Stage)
    query = replace(filters.query(), limit=COLUMN_MAX, after=None)
    jobs = request.coordinator.jobs
    return {stage: await jobs.find(caller, replace(query, stages=(stage,))) for stage in stages}


def _key(filters: JobFilters) -> PartKey:
    return ("jobs", filters.url())


async def _part(request: ApiRequest, session: WebSession, filters: JobFilters) -> Part:
    caller = session.caller
    board = await _board(request, caller, filters) if filters.view == "board" else None
    jobs, more = ((), False) if board is not None else await _page(request, caller, filters)
    html = render(
        "_jobs.html",
        board=board,
        jobs=jobs,
        next_url=filters.url(after=jobs[-1].id) if more else None,
        counts=await request.coordinator.jobs.count_by_stage(caller),
        filters=filters,
        now=request.coordinator.clock.now(),
        column_max=COLUMN_MAX,
    )
    return Part(html, "Jobs · Gigafactory", "/icon.svg")


@get("/jobs")
async def jobs_page(request: ApiRequest) -> ASGIApp:
    """Show the filtered jobs."""
    session = await require_session(request)
    filters = _filters(request)
    role = session.caller.role
    return render_page(
        request,
        session,
        "jobs.html",
        part=await current_part(
            request, session.caller, _key(filters), lambda: _part(request, session, filters)
        ),
        filters=filters,
        stages=tuple(Stage),
        priorities=tuple(Priority),
        bulk=[action for action in BULK_ACTIONS if role in ROLES_BY_VERB[action]],
        live=filters.url().replace("/jobs", "/live/jobs", 1),
    )


@get("/live/jobs")
async def live_jobs(request: ApiRequest) -> ASGIApp:
    """Stream updates of the list."""
    session = await require_session(request)
    filters = _filters(request)
    key = _key(filters)
    return stream_part(request, session.caller, key, lambda: _part(request, session, filters))


class BulkActionForm(WebForm, frozen=True, kw_only=True):
    """One action on several jobs."""

    action: Annotated[str, Meta(max_length=50)]
    jobs: Annotated[str, Meta(max_length=50_000)]
    """Job ids, comma-separated; after an `@` the commit that was shown with the job."""
    reason: Annotated[str, Meta(max_length=10_000)] = ""
    back: Annotated[str, Meta(max_length=2000)] = ""


@post("/jobs/actions")
async def act_on_jobs(request: ApiRequest) -> ASGIApp:
    """Take one action on several jobs; show which were refused."""
    session, form = await read_form(request, BulkActionForm)
    chosen = [each.partition("@") for each in form.jobs.split(",") if each]
    commits = {job_id: commit or None for job_id, _, commit in chosen}
    refusals: list[tuple[str, str]] = []
    if form.action not in ACTIONS:
        refusals.append((form.action, "unknown action"))
        commits = {}
    for job_id, commit in commits.items():
        try:
            action_request = ActionRequest(reason=form.reason, commit=commit)
            await request.coordinator.actions.act(
                session.caller, job_id, form.action, action_request
            )
        except Refused as refusal:
            refusals.append((job_id, refusal.detail))
    back = form.back if form.back == "/" or form.back.startswith("/jobs") else "/jobs"
    if not refusals:
        return see_other(back)
    return render_page(
        request,
        session,
        "refused.html",
        status=409,
        done=len(commits) - len(refusals) if commits else 0,
        refusals=refusals,
        back=back,
        action=form.action,
    )


ROUTES = (jobs_page, live_jobs, act_on_jobs)
