"""The calls on jobs: find, read, and what people do to them."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from gigafactory.client.transport.call import Call, path
from gigafactory.domain.job.job import Result, Stage
from gigafactory.wire.answers import Answer, Job, Jobs


class Node(Answer, frozen=True):
    """One job of a sub-tree."""

    id: str
    name: str
    title: str
    kind: str
    stage: Stage
    result: Result | None
    reason: str | None
    parent_id: str | None
    phase: int | None
    deps: tuple[str, ...]
    flags: tuple[str, ...]
    superseded_by: str | None = None
    planner: bool = False


class Rollup(Answer, frozen=True):
    """What a job and all below it come to."""

    status: str
    total: int
    shipped: int
    stages: dict[str, int]
    blocked: tuple[str, ...]
    failed: tuple[str, ...]
    cost_usd: str
    tokens: int
    revision: int
    phase: int | None
    asked_phase: int | None
    ceiling_usd: str | None = None
    ceiling_tokens: int | None = None


class Dag(Answer, frozen=True):
    """A job, all that is below it, and their sum."""

    root: str
    nodes: tuple[Node, ...]
    rollup: Rollup
    cut: bool = False


def dag(job: str) -> Call[Dag]:
    """The sub-tree of a job with its states, and what it comes to."""
    return Call(method="GET", path=path("jobs", job, "dag"), answer=Dag)


class Filter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which jobs, and how many at a time; several stages are written with commas between."""

    stage: str | None = None
    repo: str | None = None
    profile: str | None = None
    engine: str | None = None
    factory: str | None = None
    priority: str | None = None
    parent: str | None = None
    text: str | None = None
    sort: Literal["newest", "oldest"] = "newest"
    limit: int = 50
    cursor: str | None = None
    """`next_cursor` of the page before."""


def find(wanted: Filter) -> Call[Jobs]:
    """One page of jobs, newest first unless said otherwise."""
    query = msgspec.to_builtins(wanted)
    return Call(method="GET", path=path("jobs"), answer=Jobs, query=query)


SOME_MAX = 100
"""So many jobs can be asked for by their ids at once."""


def some(job_ids: Sequence[str]) -> Call[Jobs]:
    """Those of these jobs that there are, by their ids; up to a hundred."""
    return Call(method="GET", path=path("jobs"), answer=Jobs, query={"id": ",".join(job_ids)})


def get(job: str, *, include: Sequence[str] = ()) -> Call[Job]:
    """One job by its id, or by its name in the product; `include` more, as the API names it."""
    query = {"include": ",".join(include)}
    return Call(method="GET", path=path("jobs", job), answer=Job, query=query)


def act(
    job: str, action: str, *, reason: str = "", commit: str | None = None, fresh: bool = False
) -> Call[Job]:
    """Do to a job what the lifecycle's table names: approve, ship, requeue and so on."""
    body = _given(reason=reason, commit=commit, fresh=fresh)
    return Call(method="POST", path=path("jobs", job, "actions", action), answer=Job, body=body)


def request_review(
    job: str, *, reviewers: Sequence[str] = (), quorum: int | None = None, comment: str = ""
) -> Call[Job]:
    """Ask for a review, of those named or of any reviewer."""
    body = _given(reviewers=reviewers, quorum=quorum, comment=comment)
    return Call(method="POST", path=path("jobs", job, "review", "request"), answer=Job, body=body)


def _given(**wish: object) -> bytes:
    return msgspec.json.encode({name: value for name, value in wish.items() if value})
