"""Read the jobs below a composite, level by level, with few queries per level."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from gigafactory.coordinator.core.ports import PAGE_MAX, JobQuery, Store
from gigafactory.domain.job.job import Job, Stage

PARENTS_MAX = 50
"""Composites per query."""


async def children(
    store: Store, parent_ids: Collection[str], stages: tuple[Stage, ...] = ()
) -> list[Job]:
    """Return the direct children of these composites, in the order of their ids per query."""
    descendants: list[Job] = []
    parents = sorted(parent_ids)
    for first in range(0, len(parents), PARENTS_MAX):
        some = tuple(parents[first : first + PARENTS_MAX])
        query = JobQuery(parents=some, stages=stages, oldest_first=True, limit=PAGE_MAX)
        while page := await store.find_jobs(query):
            descendants += page
            query = replace(query, after=page[-1].id)
    return descendants


async def subtree(store: Store, root: Job, *, most: int) -> Sequence[Job]:
    """Return all descendants of a job, parents first; at most `most` + 1 of them."""
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
