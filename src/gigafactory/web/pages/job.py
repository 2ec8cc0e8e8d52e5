"""The page of a job: what was asked, where it stands and why, its runs, its log, and what to do."""

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
from gigafactory.domain.tracker.defect import REFERENCE_CHARS_MAX, Defect, Source
from gigafactory.web.pages.artifact import readable
from gigafactory.web.presenters.dag_layout import picture
from gigafactory.web.site.live import Key, Part, shown, stream
from gigafactory.web.site.rendering import page, rendered, see_other
from gigafactory.web.site.session import Sent, Visit, sent, visit

EVENTS_SHOWN = 200
TURN = frozenset({Stage.REVIEW, Stage.TESTING})
"""Where a job waits for a person."""


def _may(caller: Caller, job: Job) -> Sequence[str]:
    """The actions of the lifecycle that this visitor may take."""
    role = caller.role
    # A composite at work is approved phase by phase: without one that waits there is nothing to.
    waits = job.stage in TURN or (job.roadmap is not None and job.roadmap.asked is not None)
    needless = {"approve"} if job.composite and not waits else set()
    return [
        each for each in actions_of(job) if role in ROLES_BY_VERB[each] and each not in needless
    ]


def grows(caller: Caller, job: Job) -> bool:
    """Whether this visitor may add children to it now."""
    return job.composite and job.stage in EXTENDABLE and caller.role in ROLES_BY_VERB["submit"]


def _key(visitor: Visit, job_id: str) -> Key:
    return ("job", job_id, visitor.csrf)


async def _part(request: ApiRequest, visitor: Visit, job_id: str) -> Part:
    coordinator = request.coordinator
    jobs, caller = coordinator.jobs, visitor.caller
    job = await jobs.get(caller, job_id)
    near = await coordinator.dags.find_neighbours(caller, job)
    around = (*near.dependencies, *near.dependents)
    # What is part of a composite needs no arrow from it, as long as nothing else is drawn.
    drawn = near.children if near.children and not around else (job, *around, *near.children)
    events = await jobs.events(job, after=max(0, job.seq - EVENTS_SHOWN), limit=EVENTS_SHOWN)
    html = rendered(
        "_job.html",
        job=job,
        may=_may(caller, job),
        csrf=visitor.csrf,
        events=list(reversed(events)),
        runs=list(reversed(await jobs.runs(job))),
        why=await jobs.explain(job),
        artifacts=await coordinator.artifacts.list_files(job),
        readable=readable,
        # Whoever hangs together with nobody needs no picture.
        picture=picture(drawn) if len(drawn) > 1 else None,
        near=near,
        now=coordinator.clock.now(),
        turn=TURN,
        grows=grows(caller, job),
        blames=job.stage is Stage.SHIPPED and caller.role in ROLES_BY_VERB["defect"],
        removes=caller.role in ROLES_BY_VERB["artifacts"],
    )
    mark = "● " if job.stage in TURN else ""
    icon = "/icon.svg?count=1" if job.stage in TURN else "/icon.svg"
    return Part(html, f"{mark}{job.title} · Gigafactory", icon)


@get("/jobs/{job_id:str}")
async def job_page(request: ApiRequest) -> ASGIApp:
    """Show a job."""
    visitor = await visit(request)
    reference = request.path_name("job_id", "job")
    job = await request.coordinator.jobs.get(visitor.caller, reference)
    spec = await request.coordinator.jobs.spec(job)
    return page(
        request,
        visitor,
        "job.html",
        part=await shown(
            request, visitor.caller, _key(visitor, job.id), lambda: _part(request, visitor, job.id)
        ),
        job=job,
        body=spec.body,
        adds=visitor.caller.role in ROLES_BY_VERB["artifacts"],
        bytes_max=request.coordinator.artifacts.bytes_max,
    )


@get("/live/jobs/{job_id:str}")
async def live_job(request: ApiRequest) -> ASGIApp:
    """Keep it up to date."""
    visitor = await visit(request)
    job_id = request.path_name("job_id", "job")
    await request.coordinator.jobs.get(visitor.caller, job_id)
    key = _key(visitor, job_id)
    return stream(request, visitor.caller, key, lambda: _part(request, visitor, job_id))


class Decision(Sent, frozen=True, kw_only=True):
    """What somebody decides, with a word and the commit that they have seen."""

    reason: Annotated[str, Meta(max_length=20_000)] = ""
    commit: Annotated[str, Meta(max_length=100)] = ""
    back: Annotated[str, Meta(max_length=2000)] = ""


@post("/jobs/{job_id:str}/actions/{action:str}")
async def act(request: ApiRequest) -> ASGIApp:
    """Do what the visitor asks of a job, then show it."""
    visitor, form = await sent(request, Decision)
    job_id = request.path_name("job_id", "job")
    action = request.path_name("action", "action")
    # Browsers end the lines of a form as old printers did.
    words = form.reason.replace("\r\n", "\n").strip()
    wish = ActionRequest(reason=words, commit=form.commit or None)
    job = await request.coordinator.actions.act(visitor.caller, job_id, action, wish)
    return see_other("/" if form.back == "/" else f"/jobs/{job.id}")


class Wrong(Sent, frozen=True, kw_only=True):
    """What is wrong with something that was shipped."""

    words: Annotated[str, Meta(min_length=1, max_length=REFERENCE_CHARS_MAX)]


@post("/jobs/{job_id:str}/defects")
async def found_wanting(request: ApiRequest) -> ASGIApp:
    """Note that a shipped job let a defect through."""
    visitor, form = await sent(request, Wrong)
    defect = Defect(source=Source.PERSON, reference=form.words)
    job = await request.coordinator.defects.report(
        visitor.caller, request.path_name("job_id", "job"), defect
    )
    return see_other(f"/jobs/{job.id}")


ROUTES = (job_page, live_job, act, found_wanting)
