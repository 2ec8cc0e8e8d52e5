"""The rollup of a composite, derived from its children on request and never stored."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from gigafactory.domain.composite.budget import Ceiling
from gigafactory.domain.composite.composite import UNSTARTED
from gigafactory.domain.job.job import FINAL, Job, Stage
from gigafactory.domain.job.run import Run

FAILED = frozenset({Stage.FAILED, Stage.DEAD_LETTER, Stage.CANCELLED})


class CompositeRollup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Status, progress and spending of all descendants of a job."""

    status: str
    total: int
    shipped: int
    stages: dict[str, int]
    blocked: tuple[str, ...]
    failed: tuple[str, ...]
    cost_nano_usd: int
    tokens: int
    ceiling_nano_usd: int | None
    ceiling_tokens: int | None
    revision: int
    phase: int | None
    asked_phase: int | None


def roll_up(
    job: Job, below: Sequence[Job], runs: Iterable[Run], ceiling: Ceiling | None = None
) -> CompositeRollup:
    """Return the rollup of a job from its descendants, without superseded ones."""
    leaves = [each for each in below if not each.composite and each.superseded_by is None]
    stages = Counter(leaf.stage for leaf in leaves)
    cost = tokens = 0
    for run in runs:
        if run.usage is not None:
            cost += run.usage.cost_nano_usd or 0
            tokens += run.usage.tokens
    return CompositeRollup(
        status=_status(job, leaves),
        total=len(leaves),
        shipped=stages[Stage.SHIPPED],
        stages={stage.value: stages[stage] for stage in Stage if stages[stage]},
        blocked=tuple(leaf.id for leaf in leaves if leaf.stage is Stage.BLOCKED and leaf.flags),
        failed=tuple(leaf.id for leaf in leaves if leaf.stage in FAILED),
        cost_nano_usd=cost,
        tokens=tokens,
        ceiling_nano_usd=ceiling.usd_nanos if ceiling else None,
        ceiling_tokens=ceiling.tokens if ceiling else None,
        revision=job.roadmap.revision if job.roadmap else 0,
        phase=job.roadmap.phase if job.roadmap else None,
        asked_phase=job.roadmap.asked if job.roadmap else None,
    )


def _status(job: Job, leaves: Sequence[Job]) -> str:
    if job.stage in FINAL:
        return job.stage
    if any(leaf.stage not in UNSTARTED for leaf in leaves):
        return "in_progress"
    return "blocked" if job.stage is Stage.BLOCKED else "queued"
