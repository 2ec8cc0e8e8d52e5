"""Review endpoints: pending reviews, decisions, requests."""

from litestar import get, post
from litestar.types import ASGIApp

from gigafactory.api.http.examples import JOB
from gigafactory.api.http.operation import Body, operation
from gigafactory.api.http.request import ApiRequest
from gigafactory.api.http.response import json_response
from gigafactory.api.render import jobs as views
from gigafactory.coordinator.lifecycle.actions import ActionRequest
from gigafactory.wire.jobs import JobView
from gigafactory.wire.reviews import ReviewDoc, ReviewRequestDoc, ReviewsView

TAG = "Review"


@get("/reviews", opt=operation(TAG, responses={200: Body(of=ReviewsView)}))
async def list_reviews(request: ApiRequest) -> ASGIApp:
    """List jobs that wait for the caller's review."""
    caller = await request.caller()
    jobs = await request.coordinator.reviews.find_waiting(caller)
    return json_response(ReviewsView(reviews=tuple(views.render_job(job) for job in jobs)))


@post(
    "/jobs/{job_id:str}/review",
    opt=operation(
        TAG,
        body=Body(
            of=ReviewDoc,
            example={"decision": "approve", "comment": "looks right", "commit": "4f2a91c"},
        ),
        responses={200: Body(of=JobView, example=JOB)},
        errors=(404, 409),
    ),
)
async def review_job(request: ApiRequest) -> ASGIApp:
    """Decide on a job in review: approve, reject or request-changes.

    An approval carries the `commit` that was looked at, if the job has one: 422 without it. 409
    when there is a newer commit than the one in the decision.
    """
    caller = await request.caller()
    doc = await request.json_body(ReviewDoc)
    job = await request.coordinator.actions.act(
        caller,
        request.path_name("job_id", "job"),
        doc.decision,
        ActionRequest(reason=doc.comment, commit=doc.commit),
    )
    return json_response(views.render_job(request.coordinator.jobs.with_fleet_flags(job)))


@post(
    "/jobs/{job_id:str}/review/request",
    opt=operation(
        TAG,
        body=Body(
            of=ReviewRequestDoc,
            example={"reviewers": ["ann", "bob"], "quorum": 2, "comment": "the schema changed"},
        ),
        responses={200: Body(of=JobView, example=JOB)},
        errors=(404, 409),
        optional_body=True,
    ),
)
async def request_review(request: ApiRequest) -> ASGIApp:
    """Request a review of a job that is building or in review.

    A running job is then reviewed when it is done, whatever its policy. A request cannot weaken the
    job's own review rules: it can only narrow its reviewers and raise its quorum.
    """
    caller = await request.caller("request-review")
    doc = await request.json_body(ReviewRequestDoc)
    job = await request.coordinator.actions.act(
        caller,
        request.path_name("job_id", "job"),
        "request-review",
        ActionRequest(reason=doc.comment, reviewers=doc.reviewers, quorum=doc.quorum),
    )
    return json_response(views.render_job(request.coordinator.jobs.with_fleet_flags(job)))


ROUTES = (list_reviews, review_job, request_review)
