"""Records of a composite's tree and its roll-up."""

from gigafactory.domain.job.job import Result, Stage
from gigafactory.wire.fields import Money, ResponseView


class NodeView(ResponseView, frozen=True, kw_only=True):
    """One job of a tree."""

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
    """Roll-up of a job and everything below it, computed now."""

    status: str
    """`queued`, `blocked`, `in_progress`, or the stage in which it ended."""
    total: int
    shipped: int
    stages: dict[str, int]
    """Number of leaves by stage, without those that a newer plan replaced."""
    blocked: tuple[str, ...]
    """Leaves whose dependencies can no longer be satisfied."""
    failed: tuple[str, ...]
    cost_usd: Money
    tokens: int
    ceiling_usd: Money | None
    """Cost limit of the whole tree; null if the manifest sets none."""
    ceiling_tokens: int | None
    revision: int
    phase: int | None
    """The open phase; null without phases."""
    asked_phase: int | None
    """The phase that waits for approval."""


class DagView(ResponseView, frozen=True, kw_only=True):
    """A job, everything below it, and the roll-up."""

    root: str
    nodes: tuple[NodeView, ...]
    rollup: RollupView
    cut: bool
    """Whether there are more than 10,000 nodes."""
