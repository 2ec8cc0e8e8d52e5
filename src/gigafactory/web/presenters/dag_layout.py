"""Lay out a DAG of jobs in layers from left to right, with few crossings."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from gigafactory.domain.job.job import Job

BOX_WIDTH, BOX_HEIGHT = 190, 46
GAP_X, GAP_Y = 60, 14
MARGIN = 8
SWEEPS = 4
BOXES_MAX = 1000
EDGES_MAX = 3000
"""More arrows show nothing, and take seconds."""


class JobBox(NamedTuple):
    """The box of a job and its position."""

    job: Job
    x: int
    y: int


class Arrow(NamedTuple):
    """An arrow from a job to a dependent, or from a composite to a child."""

    kind: str
    """`dep` or `part`."""
    path: str


class DagPicture(NamedTuple):
    """All boxes and arrows of a DAG."""

    boxes: Sequence[JobBox]
    arrows: Sequence[Arrow]
    width: int
    height: int
    box_size: tuple[int, int] = (BOX_WIDTH, BOX_HEIGHT)


def can_be_drawn(jobs: Sequence[Job]) -> bool:
    """Return whether there are few enough jobs and dependencies for a picture."""
    return len(jobs) <= BOXES_MAX and sum(len(job.deps) + 1 for job in jobs) <= EDGES_MAX


def draw_dag(drawn_jobs: Sequence[Job]) -> DagPicture:
    """Lay out jobs with the dependencies among them."""
    jobs = {job.id: job for job in drawn_jobs}
    layers = _layers(jobs)
    positions = _positions(jobs, layers)
    boxes = [JobBox(jobs[job_id], *positions[job_id]) for job_id in jobs]
    arrows = [
        Arrow(kind, _path(positions[first], positions[then])) for kind, first, then in _edges(jobs)
    ]
    width = max((x + BOX_WIDTH for x, _ in positions.values()), default=0) + MARGIN
    height = max((y + BOX_HEIGHT for _, y in positions.values()), default=0) + MARGIN
    return DagPicture(boxes, arrows, width, height)


def _edges(jobs: Mapping[str, Job]) -> list[tuple[str, str, str]]:
    edges = []
    for job in jobs.values():
        edges += [("dep", dep, job.id) for dep in job.deps if dep in jobs]
        if job.parent_id in jobs:
            edges.append(("part", str(job.parent_id), job.id))
    return edges


def _layers(jobs: Mapping[str, Job]) -> dict[str, int]:
    """Return the layer of each job: after its dependencies, its composite and earlier phases."""
    before: dict[str, set[str]] = {job_id: set() for job_id in jobs}
    for _, first, then in _edges(jobs):
        before[then].add(first)
    phases: dict[tuple[str | None, int], list[str]] = defaultdict(list)
    for job in jobs.values():
        phases[job.parent_id, job.phase or 0].append(job.id)
    for earlier, later in pairwise(sorted(phases, key=lambda key: (key[0] or "", key[1]))):
        if earlier[0] == later[0]:
            # The previous phase is enough: it comes after all earlier ones.
            for job_id in phases[later]:
                before[job_id].update(phases[earlier])
    layers: dict[str, int] = {}
    waiting = {job_id: set(needs) for job_id, needs in before.items()}
    level = 0
    while waiting:
        ready = [job_id for job_id, needs in waiting.items() if not needs]
        # The store refuses cycles; should there be one anyway, draw it in one layer.
        ready = ready or list(waiting)
        for job_id in ready:
            layers[job_id] = level
            del waiting[job_id]
        for needs in waiting.values():
            needs.difference_update(ready)
        level += 1
    return layers


def _positions(jobs: Mapping[str, Job], layers: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Return the position of each job: in its layer, close to its neighbours."""
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
