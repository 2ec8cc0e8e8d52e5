"""The calls on composites: their children, and their sub-tree."""

from collections.abc import Sequence

import msgspec

from gigafactory.client.answers import Answer, Jobs
from gigafactory.client.call import Call, path
from gigafactory.client.submissions import doc
from gigafactory.domain.job import Result, Stage
from gigafactory.domain.manifest import JobFile


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


def add_children(job: str, files: Sequence[JobFile]) -> Call[Jobs]:
    """Add children to a composite, all or none."""
    body = msgspec.json.encode({"jobs": [doc(file) for file in files]})
    return Call(method="POST", path=path("jobs", job, "children"), answer=Jobs, body=body)


def dag(job: str) -> Call[Dag]:
    """The sub-tree of a job with its states, and what it comes to."""
    return Call(method="GET", path=path("jobs", job, "dag"), answer=Dag)
