"""Records of a composite's tree and its roll-up."""

from gigafactory.domain.job.job import Result, Stage
from gigafactory.wire.fields import Money, ResponseView


class NodeView(ResponseView, frozen=True, kw_only=True):
    """One job of a sub-tree."""

    id: str
    name: str
    title: str
    kind: str
    planner: bool
    """Whether its plan becomes children of its composite."""
    stage: Stage
    result: Result | None
    reason: str | None
    parent_id: str | None
    phase: int | None
    deps: tuple[str, ...]
    flags: tuple[str, ...]
    superseded_by: str | None


class RollupView(ResponseView, frozen=True, kw_only=True):
    """What a job and all below it come to, derived at this moment."""

    status: str
    """`queued`, `blocked`, `in_progress`, or the stage in which it ended."""
    total: int
    shipped: int
    stages: dict[str, int]
    """How many leaves stand in each stage; those that a newer plan replaced do not count."""
    blocked: tuple[str, ...]
    """The leaves that wait for what can never be satisfied as things are."""
    failed: tuple[str, ...]
    cost_usd: Money
    tokens: int
    ceiling_usd: Money | None
    """What all of it together may cost; None where its manifest names nothing."""
    ceiling_tokens: int | None
    revision: int
    phase: int | None
    """The phase that is open; None without phases."""
    asked_phase: int | None
    """The phase that waits for a person's approval."""


class DagView(ResponseView, frozen=True, kw_only=True):
    """A job, all that is below it, and their sum."""

    root: str
    nodes: tuple[NodeView, ...]
    rollup: RollupView
    cut: bool
    """Whether there are more than 10,000 nodes."""
