"""The calls on jobs: find, read, and what people do to them."""

from collections.abc import Sequence

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.wire.composites import DagView
from gigafactory.wire.jobs import JobFilter, JobsView, JobView


def dag(job: str) -> Call[DagView]:
    """The sub-tree of a job with its states, and what it comes to."""
    return Call(method="GET", path=path("jobs", job, "dag"), answer=DagView)


def find(wanted: JobFilter) -> Call[JobsView]:
    """One page of jobs, newest first unless said otherwise."""
    query = msgspec.to_builtins(wanted)
    return Call(method="GET", path=path("jobs"), answer=JobsView, query=query)


SOME_MAX = 100
"""So many jobs can be asked for by their ids at once."""


def some(job_ids: Sequence[str]) -> Call[JobsView]:
    """Those of these jobs that there are, by their ids; up to a hundred."""
    return Call(method="GET", path=path("jobs"), answer=JobsView, query={"id": ",".join(job_ids)})


def get(job: str, *, include: Sequence[str] = ()) -> Call[JobView]:
    """One job by its id, or by its name in the product; `include` more, as the API names it."""
    query = {"include": ",".join(include)}
    return Call(method="GET", path=path("jobs", job), answer=JobView, query=query)


def act(
    job: str, action: str, *, reason: str = "", commit: str | None = None, fresh: bool = False
) -> Call[JobView]:
    """Do to a job what the lifecycle's table names: approve, ship, requeue and so on."""
    body = _given(reason=reason, commit=commit, fresh=fresh)
    return Call(method="POST", path=path("jobs", job, "actions", action), answer=JobView, body=body)


def request_review(
    job: str, *, reviewers: Sequence[str] = (), quorum: int | None = None, comment: str = ""
) -> Call[JobView]:
    """Ask for a review, of those named or of any reviewer."""
    body = _given(reviewers=reviewers, quorum=quorum, comment=comment)
    return Call(
        method="POST", path=path("jobs", job, "review", "request"), answer=JobView, body=body
    )


def _given(**wish: object) -> bytes:
    return msgspec.json.encode({name: value for name, value in wish.items() if value})
