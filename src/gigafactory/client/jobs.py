"""The calls on jobs: find, read, and what people do to them."""

from collections.abc import Sequence

import msgspec

from gigafactory.client.transport.call import ApiCall, path
from gigafactory.wire.composites import DagView
from gigafactory.wire.jobs import JobFilter, JobsView, JobView


def dag(job: str) -> ApiCall[DagView]:
    """The sub-tree of a job with its states, and what it comes to."""
    return ApiCall(method="GET", path=path("jobs", job, "dag"), response_type=DagView)


def find(wanted: JobFilter) -> ApiCall[JobsView]:
    """One page of jobs, newest first unless said otherwise."""
    query = msgspec.to_builtins(wanted)
    return ApiCall(method="GET", path=path("jobs"), response_type=JobsView, query=query)


IDS_MAX = 100
"""So many jobs can be asked for by their ids at once."""


def find_by_ids(job_ids: Sequence[str]) -> ApiCall[JobsView]:
    """Those of these jobs that there are, by their ids; up to a hundred."""
    return ApiCall(
        method="GET", path=path("jobs"), response_type=JobsView, query={"id": ",".join(job_ids)}
    )


def get(job: str, *, include: Sequence[str] = ()) -> ApiCall[JobView]:
    """One job by its id, or by its name in the product; `include` more, as the API names it."""
    query = {"include": ",".join(include)}
    return ApiCall(method="GET", path=path("jobs", job), response_type=JobView, query=query)


def act(
    job: str, action: str, *, reason: str = "", commit: str | None = None, fresh: bool = False
) -> ApiCall[JobView]:
    """Do to a job what the lifecycle's table names: approve, ship, requeue and so on."""
    body = _encode_set(reason=reason, commit=commit, fresh=fresh)
    return ApiCall(
        method="POST", path=path("jobs", job, "actions", action), response_type=JobView, body=body
    )


def request_review(
    job: str, *, reviewers: Sequence[str] = (), quorum: int | None = None, comment: str = ""
) -> ApiCall[JobView]:
    """Ask for a review, of those named or of any reviewer."""
    body = _encode_set(reviewers=reviewers, quorum=quorum, comment=comment)
    return ApiCall(
        method="POST", path=path("jobs", job, "review", "request"), response_type=JobView, body=body
    )


def _encode_set(**wish: object) -> bytes:
    return msgspec.json.encode({name: value for name, value in wish.items() if value})
