"""A picture of jobs that wait for each other: in layers from left to right, with few crossings."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gigafactory.domain.job.job import Job

BOX_WIDTH, BOX_HEIGHT = 190, 46
GAP_X, GAP_Y = 60, 14
MARGIN = 8
SWEEPS = 4


class Box(NamedTuple):
    """One job and where it is drawn."""

    job: Job
    x: int
    y: int


class Arrow(NamedTuple):
    """From a job to one that waits for it, or from a composite to its children."""

    kind: str
    """`dep` or `part`."""
    path: str


class Picture(NamedTuple):
    """All of it."""

    boxes: Sequence[Box]
    arrows: Sequence[Arrow]
    width: int
    height: int
    box: tuple[int, int] = (BOX_WIDTH, BOX_HEIGHT)


def picture(shown: Sequence[Job]) -> Picture:
    """Draw these jobs, with what hangs together among them."""
    jobs = {job.id: job for job in shown}
    layers = _layers(jobs)
    places = _places(jobs, layers)
    boxes = [Box(jobs[job_id], *places[job_id]) for job_id in jobs]
    arrows = [Arrow(kind, _path(places[first], places[then])) for kind, first, then in _edges(jobs)]
    width = max((x + BOX_WIDTH for x, _ in places.values()), default=0) + MARGIN
    height = max((y + BOX_HEIGHT for _, y in places.values()), default=0) + MARGIN
    return Picture(boxes, arrows, width, height)


def _edges(jobs: Mapping[str, Job]) -> list[tuple[str, str, str]]:
    found = []
    for job in jobs.values():
        found += [("dep", dep, job.id) for dep in job.deps if dep in jobs]
        if job.parent_id in jobs:
            found.append(("part", str(job.parent_id), job.id))
    return found


def _layers(jobs: Mapping[str, Job]) -> dict[str, int]:
    """How far to the right each is: behind what it waits for, its composite, and earlier phases."""
    before: dict[str, set[str]] = {job_id: set() for job_id in jobs}
    for _, first, then in _edges(jobs):
        before[then].add(first)
    phases: dict[tuple[str | None, int], list[str]] = defaultdict(list)
    for job in jobs.values():
        phases[job.parent_id, job.phase or 0].append(job.id)
    for (parent, phase), members in phases.items():
        earlier = [key for key in phases if key[0] == parent and key[1] < phase]
        if earlier:
            # The nearest phase is enough: it stands behind those before it.
            for job_id in members:
                before[job_id].update(phases[max(earlier, key=lambda key: key[1])])
    layers: dict[str, int] = {}
    waiting = {job_id: set(needs) for job_id, needs in before.items()}
    level = 0
    while waiting:
        ready = [job_id for job_id, needs in waiting.items() if not needs]
        # A circle cannot be stored; should one be here all the same, it is drawn in one layer.
        ready = ready or list(waiting)
        for job_id in ready:
            layers[job_id] = level
            del waiting[job_id]
        for needs in waiting.values():
            needs.difference_update(ready)
        level += 1
    return layers


def _places(jobs: Mapping[str, Job], layers: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Where each is drawn: in its layer, near to what it hangs together with."""
    columns: dict[int, list[str]] = defaultdict(list)
    for job_id in jobs:
        columns[layers[job_id]].append(job_id)
    order = {job_id: n for column in columns.values() for n, job_id in enumerate(column)}
    near: dict[str, set[str]] = defaultdict(set)
    for job in jobs.values():
        for dep in (*job.deps, job.parent_id):
            if dep in jobs:
                near[job.id].add(str(dep))
                near[str(dep)].add(job.id)
    for _ in range(SWEEPS):
        for column in columns.values():
            column.sort(
                key=lambda job_id: (
                    sum(order[other] for other in near[job_id]) / len(near[job_id])
                    if near[job_id]
                    else order[job_id],
                    order[job_id],
                )
            )
            order |= {job_id: n for n, job_id in enumerate(column)}
    return {
        job_id: (
            MARGIN + layers[job_id] * (BOX_WIDTH + GAP_X),
            MARGIN + order[job_id] * (BOX_HEIGHT + GAP_Y),
        )
        for job_id in jobs
    }


def _path(first: tuple[int, int], then: tuple[int, int]) -> str:
    x1, y1 = first[0] + BOX_WIDTH, first[1] + BOX_HEIGHT // 2
    x2, y2 = then[0], then[1] + BOX_HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"
