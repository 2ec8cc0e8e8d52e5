"""Everything below a composite, level by level: a few queries a level, however many there are."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from gigafactory.coordinator.core.ports import PAGE_MAX, JobQuery, Store
from gigafactory.domain.job.job import Job, Stage

PARENTS_MAX = 50
"""So many composites are asked about at once."""


async def children(
    store: Store, parent_ids: Collection[str], stages: tuple[Stage, ...] = ()
) -> list[Job]:
    """The jobs that are directly below these, in the order of their ids for each query."""
    found: list[Job] = []
    parents = sorted(parent_ids)
    for first in range(0, len(parents), PARENTS_MAX):
        some = tuple(parents[first : first + PARENTS_MAX])
        query = JobQuery(parents=some, stages=stages, oldest_first=True, limit=PAGE_MAX)
        while page := await store.find_jobs(query):
            found += page
            query = replace(query, after=page[-1].id)
    return found


async def subtree(store: Store, root: Job, *, most: int) -> Sequence[Job]:
    """All that is below a job, each composite before its children; up to so many, and one more."""
    below: list[Job] = []
    seen = {root.id}
    level = [root] if root.composite else []
    while level and len(below) <= most:
        level = [
            each for each in await children(store, {job.id for job in level}) if each.id not in seen
        ]
        seen.update(each.id for each in level)
        below += level
        level = [each for each in level if each.composite]
    return below[: most + 1]
