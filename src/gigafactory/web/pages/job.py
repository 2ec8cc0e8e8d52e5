"""Job page: instructions, stage and explanation, actions, runs, artifacts and log."""

from collections.abc import Sequence
from typing import Annotated

from litestar import get, post
from litestar.types import ASGIApp
from msgspec import Meta

from gigafactory.api.http.request import ApiRequest
from gigafactory.coordinator.lifecycle.actions import ActionRequest
from gigafactory.domain.composite.composite import EXTENDABLE
from gigafactory.domain.job.job import Job, Stage
from gigafactory.domain.job.lifecycle import actions_of
from gigafactory.domain.tenancy.access import ROLES_BY_VERB, Caller
from gigafactory.domain.tracker.defect import REFERENCE_CHARS_MAX, Defect, DefectSource
from gigafactory.web.pages.artifact import is_readable
from gigafactory.web.presenters.dag_layout import can_be_drawn, draw_dag
from gigafactory.web.site.live import Part, PartKey, current_part, stream_part
from gigafactory.web.site.rendering import render, render_page, see_other
from gigafactory.web.site.session import WebForm, WebSession, read_form, require_session

EVENTS_SHOWN = 200
WAITING_FOR_PERSON = frozenset({Stage.REVIEW, Stage.TESTING})
"""Stages in which a job waits for a person."""


def _allowed_actions(caller: Caller, job: Job) -> Sequence[str]:
    role = caller.role
    # A running composite is approved by phase: without a waiting phase there is nothing to approve.
    waits = job.stage in WAITING_FOR_PERSON or (
        job.roadmap is not None and job.roadmap.asked is not None
    )
    hidden = {"approve"} if job.composite and not waits else set()
    return [each for each in actions_of(job) if role in ROLES_BY_VERB[each] and each not in hidden]


def can_add_children(caller: Caller, job: Job) -> bool:
    """Return whether the caller can add children to the job now."""
    return job.composite and job.stage in EXTENDABLE and caller.role in ROLES_BY_VERB["submit"]


def _key(session: WebSession, job_id: str) -> PartKey:
    return ("job", job_id, session.csrf)


async def _part(request: ApiRequest, session: WebSession, job_id: str) -> Part:
    coordinator = request.coordinator
    jobs, caller = coordinator.jobs, session.caller
    job = await jobs.get(caller, job_id)
    near = await coordinator.dags.find_neighbours(caller, job)
    around = (*near.dependencies, *near.dependents)
    # Draw the children without their composite if there is nothing else to draw.
    drawn_jobs = near.children if near.children and not around else (job, *around, *near.children)
    events = await jobs.events(job, after=max(0, job.seq - EVENTS_SHOWN), limit=EVENTS_SHOWN)
    html = render(
        "_job.html",
        job=job,
        actions=_allowed_actions(caller, job),
        csrf=session.csrf,
        events=list(reversed(events)),
        runs=list(reversed(await jobs.runs(job))),
        why=await jobs.explain(job),
        artifacts=await coordinator.artifacts.list_files(job),
        is_readable=is_readable,
        picture=draw_dag(drawn_jobs) if len(drawn_jobs) > 1 and can_be_drawn(drawn_jobs) else None,
        near=near,
        now=coordinator.clock.now(),
        waiting_for_person=WAITING_FOR_PERSON,
        can_add=can_add_children(caller, job),
        can_report_defect=job.stage is Stage.SHIPPED and caller.role in ROLES_BY_VERB["defect"],
        can_remove=caller.role in ROLES_BY_VERB["artifacts"],
    )
    mark = "● " if job.stage in WAITING_FOR_PERSON else ""
    icon = "/icon.svg?count=1" if job.stage in WAITING_FOR_PERSON else "/icon.svg"
    return Part(html, f"{mark}{job.title} · Gigafactory", icon)


@get("/jobs/{job_id:str}")
async def job_page(request: ApiRequest) -> ASGIApp:
    """Show a job."""
    session = await require_session(request)
    reference = request.path_name("job_id", "job")
    job = await request.coordinator.jobs.get(session.caller, reference)
    spec = await request.coordinator.jobs.spec(job)
    return render_page(
        request,
        session,
        "job.html",
        part=await current_part(
            request, session.caller, _key(session, job.id), lambda: _part(request, session, job.id)
        ),
        job=job,
        body=spec.body,
        can_upload=session.caller.role in ROLES_BY_VERB["artifacts"],
        bytes_max=request.coordinator.artifacts.bytes_max,
    )


@get("/live/jobs/{job_id:str}")
async def live_job(request: ApiRequest) -> ASGIApp:
    """Stream updates of the page."""
    session = await require_session(request)
    job_id = request.path_name("job_id", "job")
    await request.coordinator.jobs.get(session.caller, job_id)
    key = _key(session, job_id)
    return stream_part(request, session.caller, key, lambda: _part(request, session, job_id))


class JobActionForm(WebForm, frozen=True, kw_only=True):
    """An action with its reason and the commit that the reviewer has seen."""

    reason: Annotated[str, Meta(max_length=20_000)] = ""
    commit: Annotated[str, Meta(max_length=100)] = ""
    back: Annotated[str, Meta(max_length=2000)] = ""


@post("/jobs/{job_id:str}/actions/{action:str}")
async def act(request: ApiRequest) -> ASGIApp:
    """Take an action on a job, then show the job."""
    session, form = await read_form(request, JobActionForm)
    job_id = request.path_name("job_id", "job")
    action = request.path_name("action", "action")
    # Browsers send CRLF line ends in forms.
    reason = form.reason.replace("\r\n", "\n").strip()
    action_request = ActionRequest(reason=reason, commit=form.commit or None)
    job = await request.coordinator.actions.act(session.caller, job_id, action, action_request)
    return see_other("/" if form.back == "/" else f"/jobs/{job.id}")


class DefectForm(WebForm, frozen=True, kw_only=True):
    """Description of a defect in a shipped job."""

    words: Annotated[str, Meta(min_length=1, max_length=REFERENCE_CHARS_MAX)]


@post("/jobs/{job_id:str}/defects")
async def report_defect(request: ApiRequest) -> ASGIApp:
    """Report a defect of a shipped job."""
    session, form = await read_form(request, DefectForm)
    defect = Defect(source=DefectSource.PERSON, reference=form.words)
    job = await request.coordinator.defects.report(
        session.caller, request.path_name("job_id", "job"), defect
    )
    return see_other(f"/jobs/{job.id}")


ROUTES = (job_page, live_job, act, report_defect)
