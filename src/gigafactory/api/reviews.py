"""Reviews: what waits for whom, and decisions in the words of reviewers."""

from typing import Literal

import msgspec
from litestar import get, post
from litestar.types import ASGIApp

from gigafactory.api import views
from gigafactory.api.answers import answer
from gigafactory.api.call import Call
from gigafactory.api.decoding import Sentence, Word
from gigafactory.api.documentation import Body, operation
from gigafactory.api.examples import JOB
from gigafactory.coordinator.actions import Wish

TAG = "Review"

Decision = Literal["approve", "reject", "request-changes"]


class ReviewsView(views.View, frozen=True, kw_only=True):
    """Jobs that wait for the caller's review, the longest waiting first."""

    reviews: list[views.JobView]


@get("/reviews", opt=operation(TAG, gives={200: Body(of=ReviewsView)}))
async def list_reviews(request: Call) -> ASGIApp:
    """List what waits for the caller's review."""
    caller = await request.caller()
    jobs = await request.coordinator.reviews.waiting(caller)
    return answer(ReviewsView(reviews=[views.job(job) for job in jobs]))


class ReviewDoc(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reviewer's decision."""

    decision: Decision
    comment: Sentence = ""
    commit: Word | None = None
    """The commit that was looked at; a newer one voids the decision."""


@post(
    "/jobs/{job_id:str}/review",
    opt=operation(
        TAG,
        takes=Body(
            of=ReviewDoc,
            example={"decision": "approve", "comment": "looks right", "commit": "4f2a91c"},
        ),
        gives={200: Body(of=views.JobView, example=JOB)},
        refuses=(404, 409),
    ),
)
async def review_job(request: Call) -> ASGIApp:
    """Decide on a job in review: approve, reject or request-changes.

    409 when a newer commit is there than the one that the decision names.
    """
    caller = await request.caller()
    asked = await request.decoded(ReviewDoc)
    job = await request.coordinator.actions.act(
        caller,
        request.named("job_id", "job"),
        asked.decision,
        Wish(reason=asked.comment, commit=asked.commit),
    )
    return answer(views.job(request.coordinator.jobs.flagged(job)))


ROUTES = (list_reviews, review_job)
