"""The list of jobs: filters that live in the address, as a table or a board, with bulk actions."""

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
from gigafactory.web.site.live import Key, Part, shown, stream
from gigafactory.web.site.rendering import page, rendered, see_other
from gigafactory.web.site.session import Sent, Visit, sent, visit
from gigafactory.wire.jobs import Stages

PAGE_SIZE = 50
COLUMN_MAX = 25
BULK = ("cancel", "requeue", "approve", "ship", "promote")
Word = Annotated[str, Meta(max_length=200)]


class Filters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What of the jobs is shown."""

    view: Annotated[str, Meta(pattern=r"^(table|board)$(?!\n)")] = "table"
    stage: Stages | None = None
    q: Word | None = None
    repo: Word | None = None
    engine: Word | None = None
    profile: Word | None = None
    factory: Word | None = None
    priority: Priority | None = None
    after: Word | None = None

    def query(self) -> JobQuery:
        """What the store is asked for, with one more than the page shows."""
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

    def address(self, **changes: object) -> str:
        """The address of the same list, changed in something."""
        kept = to_builtins(replace(self, **changes))
        return f"/jobs?{urlencode(kept)}" if kept else "/jobs"


def _filters(request: ApiRequest) -> Filters:
    """What the address asks for; a form sends what was left empty, too, and that asks for nothing.

    Raises Invalid.
    """
    given = parse_qsl(request.scope["query_string"].decode("latin-1"))
    return decode_query(urlencode(given).encode(), Filters)


async def _page(
    request: ApiRequest, caller: Caller, filters: Filters
) -> tuple[Sequence[Job], bool]:
    found = await request.coordinator.jobs.find(caller, filters.query())
    return found[:PAGE_SIZE], len(found) > PAGE_SIZE


async def _board(
    request: ApiRequest, caller: Caller, filters: Filters
) -> Mapping[Stage, Sequence[Job]]:
    wanted = filters.query().stages or tuple(Stage)
    query = replace(filters.query(), limit=COLUMN_MAX, after=None)
    jobs = request.coordinator.jobs
    return {stage: await jobs.find(caller, replace(query, stages=(stage,))) for stage in wanted}


def _key(filters: Filters) -> Key:
    return ("jobs", filters.address())


async def _part(request: ApiRequest, visitor: Visit, filters: Filters) -> Part:
    caller = visitor.caller
    board = await _board(request, caller, filters) if filters.view == "board" else None
    jobs, more = ((), False) if board is not None else await _page(request, caller, filters)
    html = rendered(
        "_jobs.html",
        board=board,
        jobs=jobs,
        next=filters.address(after=jobs[-1].id) if more else None,
        counts=await request.coordinator.jobs.count_by_stage(caller),
        filters=filters,
        now=request.coordinator.clock.now(),
        column_max=COLUMN_MAX,
    )
    return Part(html, "Jobs · Gigafactory", "/icon.svg")


@get("/jobs")
async def jobs_page(request: ApiRequest) -> ASGIApp:
    """Show the jobs that the address asks for."""
    visitor = await visit(request)
    filters = _filters(request)
    role = visitor.caller.role
    return page(
        request,
        visitor,
        "jobs.html",
        part=await shown(
            request, visitor.caller, _key(filters), lambda: _part(request, visitor, filters)
        ),
        filters=filters,
        stages=tuple(Stage),
        priorities=tuple(Priority),
        bulk=[action for action in BULK if role in ROLES_BY_VERB[action]],
        live=filters.address().replace("/jobs", "/live/jobs", 1),
    )


@get("/live/jobs")
async def live_jobs(request: ApiRequest) -> ASGIApp:
    """Keep the list up to date."""
    visitor = await visit(request)
    filters = _filters(request)
    key = _key(filters)
    return stream(request, visitor.caller, key, lambda: _part(request, visitor, filters))


class Bulk(Sent, frozen=True, kw_only=True):
    """One action on several jobs."""

    action: Annotated[str, Meta(max_length=50)]
    jobs: Annotated[str, Meta(max_length=20_000)]
    """Their ids, with commas between."""
    reason: Annotated[str, Meta(max_length=10_000)] = ""
    back: Annotated[str, Meta(max_length=2000)] = ""


@post("/jobs/actions")
async def act_on_many(request: ApiRequest) -> ASGIApp:
    """Do one thing to each of several jobs; what cannot be done is told beside what was."""
    visitor, form = await sent(request, Bulk)
    ids = list(dict.fromkeys(filter(None, form.jobs.split(","))))
    refusals: list[tuple[str, str]] = []
    if form.action not in ACTIONS:
        refusals.append((form.action, "is no action"))
        ids = []
    for job_id in ids:
        try:
            wish = ActionRequest(reason=form.reason)
            await request.coordinator.actions.act(visitor.caller, job_id, form.action, wish)
        except Refused as refusal:
            refusals.append((job_id, refusal.detail))
    back = form.back if form.back == "/" or form.back.startswith("/jobs") else "/jobs"
    if not refusals:
        return see_other(back)
    return page(
        request,
        visitor,
        "refused.html",
        status=409,
        done=len(ids) - len(refusals) if ids else 0,
        refusals=refusals,
        back=back,
        action=form.action,
    )


ROUTES = (jobs_page, live_jobs, act_on_many)
