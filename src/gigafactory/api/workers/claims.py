"""Worker protocol endpoints: claim, accept, report, fail, renew, release."""

from litestar import patch, post
from litestar.types import ASGIApp

from gigafactory.api.http.errors import request_id_of, status_of, to_problem
from gigafactory.api.http.examples import GRANT, JOB, JOB_ID
from gigafactory.api.http.limits import BATCH_BYTES_MAX
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import NO_CONTENT, json_response
from gigafactory.api.render import jobs as views
from gigafactory.domain.errors import Refused
from gigafactory.domain.job.job import Job
from gigafactory.wire.fields import timestamp
from gigafactory.wire.jobs import JobView
from gigafactory.wire.reports import (
    FailDoc,
    ReportDoc,
    ReportResultsView,
    ReportResultView,
    ReportsDoc,
)
from gigafactory.wire.workers import (
    AcceptDoc,
    ClaimDoc,
    GrantsView,
    GrantView,
    ReleaseDoc,
    RenewDoc,
    RenewedView,
)

TAG = "Workers"
FENCING = (404, 409)


@post(
    "/claim",
    opt=operation(
        TAG,
        body=Body(of=ClaimDoc, example={"factoryId": "mac-1", "wait": 20}),
        responses={200: Body(of=(GrantView, GrantsView), example=GRANT), 204: None},
        errors=(404, 409),
    ),
)
async def claim(request: ApiRequest) -> ASGIApp:
    """Lease the best job that this factory can run.

    204 when there is none within `wait` seconds, or while the fleet is halted. `max` leases up to
    that many jobs and returns `{"grants": […]}`.
    """
    caller = await request.factory()
    doc = await request.json_body(ClaimDoc)
    claiming = request.coordinator.claims.claim(
        caller,
        doc.factory_id,
        instance_id=doc.instance_id,
        wait_s=doc.wait,
        most=doc.max or 1,
    )
    # A worker that disconnected must not get a lease; without a wait it has no time to disconnect.
    grants = await (request.until_disconnect(claiming) if doc.wait else claiming)
    if not grants:
        return NO_CONTENT
    if doc.max is None:
        return json_response(views.render_grant(grants[0]))
    return json_response(GrantsView(grants=tuple(views.render_grant(grant) for grant in grants)))


@post(
    "/accept",
    opt=operation(
        TAG,
        body=Body(
            of=AcceptDoc, example={"factoryId": "mac-1", "jobId": JOB_ID, "offerId": f"{JOB_ID}.1"}
        ),
        responses={200: Body(of=(GrantView, JobView), example=GRANT)},
        errors=(404, 409, 423),
    ),
)
async def accept(request: ApiRequest) -> ASGIApp:
    """Accept an offer, which becomes a lease, or decline it.

    409 `offer_gone` when it was withdrawn or another factory has the job. A decline returns the
    job, and the factory gets no offer of it for a while.
    """
    caller = await request.factory()
    doc = await request.json_body(AcceptDoc)
    claims = request.coordinator.claims
    if doc.decline is not None:
        return json_response(
            views.render_job(
                await claims.decline(caller, doc.factory_id, doc.job_id, doc.offer_id, doc.decline)
            )
        )
    grant = await claims.accept(
        caller, doc.factory_id, doc.job_id, doc.offer_id, instance_id=doc.instance_id
    )
    return json_response(views.render_grant(grant))


@patch(
    "/jobs/{job_id:str}",
    opt=operation(
        TAG,
        body=Body(of=ReportDoc, example={"leaseEpoch": 1, "stage": "building"}),
        responses={200: Body(of=JobView, example=JOB)},
        errors=FENCING,
    ),
)
async def report(request: ApiRequest) -> ASGIApp:
    """Report on a run, fenced by its epoch.

    409 `fenced` when the factory has lost the lease: stop, and quarantine the result.
    """
    caller = await request.factory()
    doc = await request.json_body(ReportDoc)
    job = await request.coordinator.reports.report(
        caller, doc.to_domain(request.path_name("job_id", "job"))
    )
    return json_response(views.render_job(job))


@post(
    "/fail",
    opt=operation(
        TAG,
        body=Body(
            of=FailDoc,
            example={
                "jobId": JOB_ID,
                "leaseEpoch": 1,
                "result": "crash",
                "reason": "exit code 137",
            },
        ),
        responses={200: Body(of=JobView, example=JOB)},
        errors=FENCING,
    ),
)
async def fail(request: ApiRequest) -> ASGIApp:
    """Report that a run has failed; the lease ends at once.

    The job is then retried, failed or dead-lettered, depending on the result and its retries.
    """
    caller = await request.factory()
    doc = await request.json_body(FailDoc)
    return json_response(
        views.render_job(await request.coordinator.reports.report(caller, doc.to_domain()))
    )


@post(
    "/reports",
    opt=operation(
        TAG,
        body=Body(
            of=ReportsDoc,
            example={"reports": [{"jobId": JOB_ID, "leaseEpoch": 1, "stage": "building"}]},
        ),
        responses={
            200: Body(of=ReportResultsView, example={"results": [{"status": 200, "job": JOB}]})
        },
    ),
)
async def report_many(request: ApiRequest) -> ASGIApp:
    """Send several reports, each fenced and with its own result.

    The response is 200 even if some are refused: check the `status` of each result.
    """
    caller = await request.factory()
    doc = await request.json_body(ReportsDoc, bytes_max=BATCH_BYTES_MAX)
    reports = [each.to_domain(each.job_id) for each in doc.reports]
    results = await request.coordinator.reports.report_many(caller, reports)
    request_id = request_id_of(request)
    return json_response(
        ReportResultsView(results=tuple(_report_result(each, request_id) for each in results))
    )


def _report_result(result: Job | Refused, request_id: str | None) -> ReportResultView:
    if isinstance(result, Refused):
        return ReportResultView(status=status_of(result), problem=to_problem(result, request_id))
    return ReportResultView(status=200, job=views.render_job(result))


@post(
    "/jobs/{job_id:str}/lease/renew",
    opt=operation(
        TAG,
        body=Body(of=RenewDoc, example={"leaseEpoch": 1}),
        responses={200: Body(of=RenewedView)},
        errors=FENCING,
    ),
)
async def renew(request: ApiRequest) -> ASGIApp:
    """Renew a lease; also an expired one, until it is reaped."""
    caller = await request.factory()
    epoch = (await request.json_body(RenewDoc)).lease_epoch
    until = await request.coordinator.claims.renew(
        caller, request.path_name("job_id", "job"), epoch
    )
    return json_response(RenewedView(lease_epoch=epoch, expires_at=timestamp(until)))


@post(
    "/jobs/{job_id:str}/lease/release",
    opt=operation(
        TAG,
        body=Body(of=ReleaseDoc, example={"leaseEpoch": 1, "reason": "draining"}),
        responses={200: Body(of=JobView, example=JOB)},
        errors=FENCING,
    ),
)
async def release(request: ApiRequest) -> ASGIApp:
    """Release a job to be queued again.

    After a cancellation it confirms that the work has stopped, and frees the seat.
    """
    caller = await request.factory()
    doc = await request.json_body(ReleaseDoc)
    job = await request.coordinator.claims.release(
        caller, request.path_name("job_id", "job"), doc.lease_epoch, doc.reason
    )
    return json_response(views.render_job(job))


ROUTES = (claim, accept, report, fail, report_many, renew, release)
