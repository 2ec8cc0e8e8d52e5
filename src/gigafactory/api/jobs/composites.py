"""Composite endpoints: add children, read the tree."""

from litestar import get, post
from litestar.types import ASGIApp

from gigafactory.api.http.decoding import decode_document
from gigafactory.api.http.examples import MANIFEST
from gigafactory.api.http.limits import BATCH_BYTES_MAX
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.api.jobs.jobs import parse_batch
from gigafactory.api.render import jobs as views
from gigafactory.coordinator.jobs.dag import JobDag
from gigafactory.domain.composite.rollup import CompositeRollup
from gigafactory.domain.job.job import Job
from gigafactory.domain.manifest.job_file import CHILDREN_MAX
from gigafactory.domain.manifest.manifest import JobFile
from gigafactory.domain.manifest.units import format_usd
from gigafactory.domain.tenancy.access import OWN_PRODUCTS
from gigafactory.wire.composites import DagView, NodeView, RollupView
from gigafactory.wire.jobs import JobsView
from gigafactory.wire.submissions import ChildrenDoc

TAG = "DAG"


@post(
    "/jobs/{job_id:str}/children",
    opt=operation(
        TAG,
        body=Body(of=ChildrenDoc, example={"jobs": [MANIFEST]}),
        responses={
            201: Body(of=JobsView, description="added"),
            200: Body(of=JobsView, description="unchanged: all children exist already"),
        },
        errors=(404, 409),
    ),
)
async def add_children(request: ApiRequest) -> ASGIApp:
    """Add children to a composite: a new revision of its plan.

    All are stored, or none. An existing child of the same name is kept if it has shipped, runs, or
    waits unchanged. A waiting child with other content, or one that ended without shipping, is
    replaced.
    """
    caller = await request.caller_or_agent()
    if caller.agent_scope is None:
        caller.require("submit", OWN_PRODUCTS)
    files = await request.parse_body(_parse_children, bytes_max=BATCH_BYTES_MAX)
    coordinator = request.coordinator
    reference = request.path_name("job_id", "job")
    submitted = await coordinator.submissions.add_children(caller, reference, files)
    job_views = tuple(
        views.render_job(coordinator.jobs.with_fleet_flags(job)) for job in submitted.jobs
    )
    return json_response(JobsView(jobs=job_views), 201 if submitted.created else 200)


def _parse_children(body: bytes) -> list[JobFile]:
    return parse_batch(decode_document(body), CHILDREN_MAX)


@get(
    "/jobs/{job_id:str}/dag",
    opt=operation(TAG, responses={200: Body(of=DagView)}, errors=(404,)),
)
async def get_dag(request: ApiRequest) -> ASGIApp:
    """Return the tree below a job, each composite before its children."""
    caller = await request.caller_or_agent()
    return json_response(
        _dag(await request.coordinator.dags.get(caller, request.path_name("job_id", "job")))
    )


def _dag(of: JobDag) -> DagView:
    nodes = tuple(_node(job) for job in (of.job, *of.descendants))
    return DagView(root=of.job.id, nodes=nodes, rollup=_rollup(of.rollup), cut=of.truncated)


def _node(of: Job) -> NodeView:
    return NodeView(
        id=of.id,
        name=of.name,
        title=of.title,
        kind=of.kind,
        planner=of.planner,
        stage=of.stage,
        result=of.result,
        reason=of.reason,
        parent_id=of.parent_id,
        phase=of.phase,
        deps=of.deps,
        flags=of.flags,
        superseded_by=of.superseded_by,
    )


def _rollup(of: CompositeRollup) -> RollupView:
    return RollupView(
        status=of.status,
        total=of.total,
        shipped=of.shipped,
        stages=of.stages,
        blocked=of.blocked,
        failed=of.failed,
        cost_usd=format_usd(of.cost_nano_usd),
        tokens=of.tokens,
        ceiling_usd=None if of.ceiling_nano_usd is None else format_usd(of.ceiling_nano_usd),
        ceiling_tokens=of.ceiling_tokens,
        revision=of.revision,
        phase=of.phase,
        asked_phase=of.asked_phase,
    )


ROUTES = (add_children, get_dag)
