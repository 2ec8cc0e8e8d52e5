"""The gate of a composite: which of its children may begin."""

from gigafactory.domain.job import Job, Stage


def lets_in(parent: Job, child: Job) -> bool:
    """Whether a child may begin, as far as its composite is concerned."""
    if not parent.composite:
        return True
    if parent.stage not in {Stage.QUEUED, Stage.BUILDING} or parent.over_budget:
        return False
    opened = parent.roadmap.phase if parent.roadmap else None
    return child.phase is None or opened is None or child.phase <= opened
