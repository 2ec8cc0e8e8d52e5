"""Calls on jobs: find, read, act."""

from collections.abc import Sequence

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.wire.composites import DagView
from gigafactory.wire.jobs import ActionDoc, JobFilter, JobIncludes, JobsView, JobView


def dag(job: str) -> ApiCall[DagView]:
    """Return the tree below a job and its roll-up."""
    return ApiCall(method="GET", path=path("jobs", job, "dag"), response_type=DagView)


def find(wanted: JobFilter) -> ApiCall[JobsView]:
    """Return one page of jobs, newest first by default."""
    return ApiCall(method="GET", path=path("jobs"), response_type=JobsView, query=wanted)


IDS_MAX = 100
"""Job ids in one request."""


def find_by_ids(job_ids: Sequence[str]) -> ApiCall[JobsView]:
    """Return the existing jobs among up to a hundred ids."""
    return find(JobFilter(id=",".join(job_ids)))


def get(job: str, *, include: Sequence[str] = ()) -> ApiCall[JobView]:
    """Return one job by id, or by name in the product; `include` adds parts such as `runs`."""
    query = JobIncludes(include=",".join(include))
    return ApiCall(method="GET", path=path("jobs", job), response_type=JobView, query=query)


def act(
    job: str, action: str, *, reason: str = "", commit: str | None = None, fresh: bool = False
) -> ApiCall[JobView]:
    """Apply an action to a job: approve, ship, requeue and so on."""
    body = msgspec.json.encode(ActionDoc(reason=reason, commit=commit, fresh=fresh))
    return ApiCall(
        method="POST", path=path("jobs", job, "actions", action), response_type=JobView, body=body
    )


def request_review(
    job: str, *, reviewers: Sequence[str] = (), quorum: int | None = None, comment: str = ""
) -> ApiCall[JobView]:
    """Request a review from the named reviewers, or from any."""
    # Imported here because it loads the manifest's rules, which no other call on jobs needs.
    from gigafactory.wire.reviews import ReviewRequestDoc

    doc = ReviewRequestDoc(reviewers=tuple(reviewers), quorum=quorum, comment=comment)
    return ApiCall(
        method="POST",
        path=path("jobs", job, "review", "request"),
        response_type=JobView,
        body=msgspec.json.encode(doc),
    )
