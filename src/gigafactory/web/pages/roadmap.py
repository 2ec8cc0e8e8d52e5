"""Roadmap page: the DAG of a composite, its rollup and the approval of its next phase."""

import asyncio

from litestar import get
from litestar.types import ASGIApp

from gigafactory.api.http.request import ApiRequest
from gigafactory.domain.tenancy.access import ROLES_BY_VERB
from gigafactory.web.pages.job import can_add_children
from gigafactory.web.presenters.dag_layout import can_be_drawn, draw_dag
from gigafactory.web.site.live import Part, stream_part
from gigafactory.web.site.rendering import render, render_page
from gigafactory.web.site.session import WebSession, require_session


async def _part(request: ApiRequest, session: WebSession, job_id: str) -> Part:
    dag = await request.coordinator.dags.get(session.caller, job_id)
    can_approve = session.caller.role in ROLES_BY_VERB["approve"]
    # Ten thousand rows take a second.
    html = await asyncio.to_thread(
        render,
        "_roadmap.html",
        job=dag.job,
        descendants=dag.descendants,
        rollup=dag.rollup,
        truncated=dag.truncated,
        # Larger roadmaps are shown only as a table.
        picture=draw_dag(dag.descendants) if can_be_drawn(dag.descendants) else None,
        asked_phase=dag.rollup.asked_phase if can_approve else None,
        can_add=can_add_children(session.caller, dag.job),
        csrf=session.csrf,
        now=request.coordinator.clock.now(),
    )
    return Part(html, f"{dag.job.title} · Gigafactory", "/icon.svg")


@get("/jobs/{job_id:str}/roadmap")
async def roadmap_page(request: ApiRequest) -> ASGIApp:
    """Show the descendants of a job."""
    session = await require_session(request)
    job = await request.coordinator.jobs.get(session.caller, request.path_name("job_id", "job"))
    part = await _part(request, session, job.id)
    return render_page(
        request, session, "live.html", part=part, live=f"/live/jobs/{job.id}/roadmap"
    )


@get("/live/jobs/{job_id:str}/roadmap")
async def live_roadmap(request: ApiRequest) -> ASGIApp:
    """Stream updates of the page."""
    session = await require_session(request)
    job_id = request.path_name("job_id", "job")
    await request.coordinator.jobs.get(session.caller, job_id)
    key = ("roadmap", job_id, session.csrf)
    return stream_part(request, session.caller, key, lambda: _part(request, session, job_id))


ROUTES = (roadmap_page, live_roadmap)
