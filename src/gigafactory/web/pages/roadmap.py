"""The page of a roadmap: its jobs as a picture, what they come to, and its next phase."""

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.http.request import ApiRequest
from gigafactory.domain.tenancy.access import ROLES_BY_VERB
from gigafactory.web.pages.job import grows
from gigafactory.web.presenters.dag_layout import picture
from gigafactory.web.site.live import Part, stream
from gigafactory.web.site.rendering import page, rendered
from gigafactory.web.site.session import Visit, visit

DRAWN_MAX = 1000
"""Beyond so many jobs a picture says nothing; the table does."""


async def _part(request: ApiRequest, visitor: Visit, job_id: str) -> Part:
    dag = await request.coordinator.dags.get(visitor.caller, job_id)
    approves = visitor.caller.role in ROLES_BY_VERB["approve"]
    html = rendered(
        "_roadmap.html",
        job=dag.job,
        below=dag.descendants,
        rollup=dag.rollup,
        cut=dag.truncated,
        picture=picture(dag.descendants) if len(dag.descendants) <= DRAWN_MAX else None,
        asked=dag.rollup.asked_phase if approves else None,
        grows=grows(visitor.caller, dag.job),
        csrf=visitor.csrf,
        now=request.coordinator.clock.now(),
    )
    return Part(html, f"{dag.job.title} · Gigafactory", "/icon.svg")


@get("/jobs/{job_id:str}/roadmap")
async def roadmap_page(request: ApiRequest) -> ASGIApp:
    """Show what is below a job."""
    visitor = await visit(request)
    job = await request.coordinator.jobs.get(visitor.caller, request.path_name("job_id", "job"))
    part = await _part(request, visitor, job.id)
    return page(request, visitor, "live.html", part=part, live=f"/live/jobs/{job.id}/roadmap")


@get("/live/jobs/{job_id:str}/roadmap")
async def live_roadmap(request: ApiRequest) -> ASGIApp:
    """Keep it up to date."""
    visitor = await visit(request)
    job_id = request.path_name("job_id", "job")
    await request.coordinator.jobs.get(visitor.caller, job_id)
    key = ("roadmap", job_id, visitor.csrf)
    return stream(request, visitor.caller, key, lambda: _part(request, visitor, job_id))


ROUTES = (roadmap_page, live_roadmap)
