"""Defect endpoint: report escaped defects."""

from litestar import post
from litestar.types import ASGIApp

from gigafactory.api.http.examples import JOB
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.api.render import jobs as views
from gigafactory.domain.tenancy.access import OWN_PRODUCTS
from gigafactory.domain.tracker.defect import Defect
from gigafactory.wire.jobs import JobView
from gigafactory.wire.reviews import DefectDoc

TAG = "Review"


@post(
    "/jobs/{job_id:str}/defects",
    opt=operation(
        TAG,
        body=Body(
            of=DefectDoc, example={"source": "revert", "reference": "4f2a91c0d3b7a86512e09f"}
        ),
        responses={200: Body(of=JobView, example=JOB)},
        errors=(404, 409),
    ),
)
async def report_defect(request: ApiRequest) -> ASGIApp:
    """Report a defect of a shipped job; repeating one has no effect.

    It counts in the insights and against the service level objective for escaped defects.
    """
    caller = await request.caller()
    if caller.factory_id is None:
        caller.require("defect", OWN_PRODUCTS)
    doc = await request.json_body(DefectDoc)
    job = await request.coordinator.defects.report(
        caller,
        request.path_name("job_id", "job"),
        Defect(source=doc.source, reference=doc.reference),
    )
    return json_response(views.render_job(request.coordinator.jobs.with_fleet_flags(job)))


ROUTES = (report_defect,)
