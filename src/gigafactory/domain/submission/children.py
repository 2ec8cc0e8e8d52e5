"""Expand composites into child jobs, and find cycles between jobs that wait for each other."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from gigafactory.domain.composite.plan import planner_for
from gigafactory.domain.errors import Cycle, Fault, Invalid
from gigafactory.domain.job.job import Job
from gigafactory.domain.manifest.manifest import JobFile, Manifest
from gigafactory.domain.submission.submission import find_cycle

FAULTS_MAX = 100


class ExpandedJob(msgspec.Struct, frozen=True):
    """One job of a submission: its file, its field path there, and the index of its composite."""

    file: JobFile
    place: str = ""
    parent: int | None = None


def expand(files: Sequence[JobFile], *, places: Sequence[str] = ()) -> list[ExpandedJob]:
    """Return all jobs of these files, each composite before its children or planner.

    Raises Invalid with the faults of all files.
    """
    expanded: list[ExpandedJob] = []
    faults: list[Fault] = []
    for number, file in enumerate(files):
        place = places[number] if places else ""
        _expand_into(ExpandedJob(file, place), file.manifest.product, expanded, faults)
    if faults:
        raise Invalid("the plan", faults[:FAULTS_MAX])
    return expanded


def _expand_into(
    job: ExpandedJob, product: str | None, into: list[ExpandedJob], faults: list[Fault]
) -> None:
    own = len(into)
    into.append(job)
    manifest = job.file.manifest
    if manifest.kind == "composite" and manifest.schedule is not None:
        message = "found a schedule on a composite; expected it on a leaf"
        faults.append(Fault(field_path(job.place, "schedule"), message))
    for number, child in enumerate(manifest.children):
        place = field_path(job.place, f"children[{number}]")
        faults += _inherited_field_faults(child.manifest, product, place)
        # The product comes from the composite: it is no part of the child's content.
        given = replace(child.manifest, product=None)
        _expand_into(ExpandedJob(JobFile(given, child.body), place, own), product, into, faults)
    planner = planner_for(job.file)
    if planner is not None:
        into.append(ExpandedJob(planner, job.place, own))


def _inherited_field_faults(child: Manifest, product: str | None, place: str) -> list[Fault]:
    """Return faults for fields that a child inherits and must not set."""
    faults = []
    if child.product is not None and child.product != product:
        fault_text = (
            f"found product {child.product!r} in a composite of {product or 'the default'!r}"
        )
        faults.append(Fault(field_path(place, "product"), f"{fault_text}; expected no other"))
    if child.parent is not None:
        message = (
            f"found parent {child.parent!r}; expected none: its position in the list determines it"
        )
        faults.append(Fault(field_path(place, "parent"), message))
    if child.schedule is not None:
        message = "found a schedule; expected none: a template never ships, nor would its composite"
        faults.append(Fault(field_path(place, "schedule"), message))
    return faults


def field_path(place: str, field: str) -> str:
    """Return the path of a field of a job in a submission."""
    return f"{place}.{field}" if place else field


def require_manual_ship(jobs: Mapping[str, Job], composite: Job | None) -> None:
    """Refuse jobs with ship-policy auto that an agent adds, unless their composite has it too.

    Raises Invalid.
    """
    if composite is not None and composite.terms.auto_ship:
        return
    expected = "expected manual: what agents add is shipped by people, unless the composite says so"
    faults = [
        Fault(field_path(place, "ship-policy"), f"is auto; {expected}")
        for place, job in jobs.items()
        if job.terms.auto_ship
    ]
    if faults:
        raise Invalid("the plan", faults[:FAULTS_MAX])


def refuse_waiting_cycles(jobs: Sequence[Job], deps: Mapping[str, Sequence[str]]) -> None:
    """Refuse jobs that wait for each other in a cycle, also through composites and phases.

    `deps` maps job ids to the ids of their dependencies; other jobs are ignored, and phases that
    are already open block nothing.
    Raises Cycle.
    """
    edges = _waiting_graph(jobs, deps)
    circle = find_cycle(edges)
    if circle is not None:
        names = {job.id: job.name for job in jobs}
        path = [names[node.partition(":")[2].partition("/")[0]] for node in circle]
        names_once = [name for at, name in enumerate(path) if at == 0 or path[at - 1] != name]
        raise Cycle(names_once if len(names_once) > 1 else [*names_once, *names_once])


def _waiting_graph(jobs: Sequence[Job], deps: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the graph of starts (`a:`) and ends (`z:`) of jobs, and of phases (`p:`)."""
    new = {job.id: job for job in jobs}
    edges: dict[str, list[str]] = {}
    phases: dict[str, list[int]] = {}
    for job in jobs:
        if job.parent_id in new and job.phase is not None:
            phases.setdefault(job.parent_id, []).append(job.phase)
    for parent_id, phase_jobs in phases.items():
        phases[parent_id] = ordered = sorted(set(phase_jobs))
        for before, phase in pairwise(ordered):
            edges[f"p:{parent_id}/{phase}"] = [f"p:{parent_id}/{before}"]
        edges.setdefault(f"p:{parent_id}/{ordered[0]}", [])
    for job in jobs:
        edges[f"a:{job.id}"] = [f"z:{dep}" for dep in deps.get(job.id, ())]
        edges.setdefault(f"z:{job.id}", []).append(f"a:{job.id}")
        if job.parent_id not in new:
            continue
        edges[f"a:{job.id}"].append(f"a:{job.parent_id}")
        edges.setdefault(f"z:{job.parent_id}", []).append(f"z:{job.id}")
        if job.phase is not None:
            edges[f"p:{job.parent_id}/{job.phase}"].append(f"z:{job.id}")
            if not _open(new[job.parent_id], job.phase):
                earlier = [phase for phase in phases[job.parent_id] if phase < job.phase]
                edges[f"a:{job.id}"] += [f"p:{job.parent_id}/{phase}" for phase in earlier[-1:]]
    return edges


def _open(composite: Job, phase: int) -> bool:
    opened = composite.roadmap.phase if composite.roadmap else None
    return opened is not None and phase <= opened
