"""8.1, judged on the event log: what composites promise, without the rules by which they do it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from gigafactory.coordinator.jobs.dag import JobDag
from gigafactory.domain.composite.budget import Ceiling
from gigafactory.domain.job.job import Job
from gigafactory.domain.job.run import Run
from gigafactory.store.memory import MemoryStore
from tests.simulation.tales import Scene, Tale

ENDED = {"failed", "dead_letter", "cancelled"}


def composite_faults(
    store: MemoryStore, tales: Mapping[str, Tale], dags: Sequence[JobDag]
) -> Iterator[str]:
    """All that the stories of composites and their children tell against them."""
    jobs = store._jobs  # noqa: SLF001 - seen from outside
    below: dict[str, list[Job]] = defaultdict(list)
    for job in jobs.values():
        if job.parent_id is not None and not _adopted(tales[job.id]):
            below[job.parent_id].append(job)
    for parent_id, children in below.items():
        composite = tales[parent_id]
        for child in children:
            yield from _grants(composite, tales[child.id])
            yield from _phases(composite, child, children, tales)
        yield from _ends(composite, children, tales)
    yield from _money(store)
    for dag in dags:
        yield from _sums(dag, jobs)


def _adopted(tale: Tale) -> bool:
    return any(scene.event.type == "adopted" for scene in tale.scenes)


def _before(tale: Tale, position: int) -> Scene | None:
    """How a job stood just before an event."""
    earlier = [scene for scene in tale.scenes if scene.event.position < position]
    return earlier[-1] if earlier else None


def _granted(child: Tale) -> Iterator[Scene]:
    return (scene for scene in child.scenes if scene.event.type == "assigned")


def _grants(composite: Tale, child: Tale) -> Iterator[str]:
    """Nothing is granted below a composite that has ended, and no run below one that spent all."""
    spent = next(
        (s.event.position for s in composite.scenes if s.event.type == "ceiling_reached"), None
    )
    for scene in _granted(child):
        at = scene.event.position
        above = _before(composite, at)
        if above is not None and above.stage in ENDED:
            yield f"8.1: {child.title} is granted, and its composite is {above.stage}"
        if spent is not None and spent < at and scene.event.data["step"] == "run":
            yield f"8.1: {child.title} is begun, and all that its composite may spend is spent"


def _phases(
    composite: Tale, child: Job, children: Sequence[Job], tales: Mapping[str, Tale]
) -> Iterator[str]:
    """A child begins when its phase is the first one, or was opened."""
    if child.phase is None:
        return
    phased = [job for job in children if job.phase is not None]
    begun = min(tales[job.id].scenes[0].moment for job in phased)
    first = min(job.phase or 0 for job in phased if tales[job.id].scenes[0].moment == begun)
    opened = [
        (scene.event.position, scene.event.data["phase"])
        for scene in composite.scenes
        if scene.event.type == "phase_opened"
    ]
    for scene in _granted(tales[child.id]):
        at = scene.event.position
        if child.phase > max([first, *(phase for place, phase in opened if place < at)]):
            yield f"8.1: {child.title} of phase {child.phase} is granted before that is open"


def _ends(composite: Tale, children: Sequence[Job], tales: Mapping[str, Tale]) -> Iterator[str]:
    """A composite goes on to its acceptance, and ships, only after all of its children shipped."""
    for scene in composite.scenes:
        if scene.event.type not in {"children_shipped", "shipped"}:
            continue
        for child in children:
            then = _before(tales[child.id], scene.event.position)
            if then is None or then.stage == "shipped" or child.superseded_by is not None:
                continue
            yield f"8.1: {composite.title} has {scene.event.type}, and {child.name} is {then.stage}"


def _money(store: MemoryStore) -> Iterator[str]:
    """What runs below a composite have spent is what its ceiling has booked."""
    records = list(store._records.values())  # noqa: SLF001 - seen from outside
    runs = [record for record in records if isinstance(record, Run)]
    for ceiling in (record for record in records if isinstance(record, Ceiling)):
        mine = [run for run in runs if _is_below(store, run, ceiling.job_id)]
        spent = sum(run.spent_nano_usd for run in mine)
        if spent != ceiling.spent_nano_usd:
            yield f"12: {ceiling.job_id} has booked {ceiling.spent_nano_usd}, and {spent} is spent"


def _is_below(store: MemoryStore, run: Run, composite_id: str) -> bool:
    above = run.parent_id
    while above is not None and above != composite_id:
        above = store._jobs[above].parent_id  # noqa: SLF001 - seen from outside
    return above is not None


def _sums(dag: JobDag, jobs: Mapping[str, Job]) -> Iterator[str]:
    """What was told of a composite, when nothing moved any more, is what its children come to."""
    leaves = [jobs[job.id] for job in dag.descendants if job.kind == "leaf"]
    counted: dict[str, int] = defaultdict(int)
    for leaf in leaves:
        if leaf.superseded_by is None:
            counted[leaf.stage] += 1
    told = dag.rollup
    if dict(counted) != told.stages or told.shipped != counted["shipped"] * 1:
        yield f"8.1: {dag.job.name} is told as {told.stages}, and is {dict(counted)}"
