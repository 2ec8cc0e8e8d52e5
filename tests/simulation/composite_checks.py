"""Checks of 8.1 on the event log: composites, implemented without the domain's rules."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from gigafactory.coordinator.jobs.dag import JobDag
from gigafactory.domain.composite.budget import Ceiling
from gigafactory.domain.job.job import Job
from gigafactory.domain.job.run import Run
from gigafactory.store.memory import MemoryStore
from tests.simulation.job_histories import JobHistory, JobState

ENDED = {"failed", "dead_letter", "cancelled"}


def composite_findings(
    store: MemoryStore, histories: Mapping[str, JobHistory], dags: Sequence[JobDag]
) -> Iterator[str]:
    """Return all findings about composites and their children."""
    jobs = store._jobs  # noqa: SLF001 - the checker reads internal state
    children_of: dict[str, list[Job]] = defaultdict(list)
    for job in jobs.values():
        if job.parent_id is not None and not _adopted(histories[job.id]):
            children_of[job.parent_id].append(job)
    for parent_id, children in children_of.items():
        composite = histories[parent_id]
        for child in children:
            yield from _grants(composite, histories[child.id])
            yield from _phases(composite, child, children, histories)
        yield from _ends(composite, children, histories)
    yield from _bookings(store)
    for dag in dags:
        yield from _rollups(dag, jobs)


def _adopted(history: JobHistory) -> bool:
    return any(state.event.type == "adopted" for state in history.states)


def _before(history: JobHistory, position: int) -> JobState | None:
    """Return the state of a job just before an event."""
    earlier = [state for state in history.states if state.event.position < position]
    return earlier[-1] if earlier else None


def _granted(child: JobHistory) -> Iterator[JobState]:
    return (state for state in child.states if state.event.type == "assigned")


def _grants(composite: JobHistory, child: JobHistory) -> Iterator[str]:
    """Check that no child is granted after its composite ended or exhausted its budget."""
    spent = next(
        (s.event.position for s in composite.states if s.event.type == "ceiling_reached"), None
    )
    for state in _granted(child):
        at = state.event.position
        parent = _before(composite, at)
        if parent is not None and parent.stage in ENDED:
            yield f"8.1: {child.title} is granted while its composite is {parent.stage}"
        if spent is not None and spent < at and state.event.data["step"] == "run":
            yield f"8.1: {child.title} is granted after its composite has exhausted its budget"


def _phases(
    composite: JobHistory, child: Job, children: Sequence[Job], histories: Mapping[str, JobHistory]
) -> Iterator[str]:
    """Check that a child is granted only in the first phase or an opened one."""
    if child.phase is None:
        return
    phased = [job for job in children if job.phase is not None]
    first_moment = min(histories[job.id].states[0].moment for job in phased)
    first = min(
        job.phase or 0 for job in phased if histories[job.id].states[0].moment == first_moment
    )
    opened = [
        (state.event.position, state.event.data["phase"])
        for state in composite.states
        if state.event.type == "phase_opened"
    ]
    for state in _granted(histories[child.id]):
        at = state.event.position
        if child.phase > max([first, *(phase for place, phase in opened if place < at)]):
            yield f"8.1: {child.title} of phase {child.phase} is granted before the phase is open"


def _ends(
    composite: JobHistory, children: Sequence[Job], histories: Mapping[str, JobHistory]
) -> Iterator[str]:
    """Check that a composite advances and ships only after all of its children have shipped."""
    for state in composite.states:
        if state.event.type not in {"children_shipped", "shipped"}:
            continue
        for child in children:
            before = _before(histories[child.id], state.event.position)
            if before is None or before.stage == "shipped" or child.superseded_by is not None:
                continue
            yield (
                f"8.1: {composite.title} has {state.event.type}"
                f" while {child.name} is {before.stage}"
            )


def _bookings(store: MemoryStore) -> Iterator[str]:
    """Check that a composite's ceiling has booked the costs of the runs below it."""
    records = list(store._records.values())  # noqa: SLF001 - the checker reads internal state
    runs = [record for record in records if isinstance(record, Run)]
    for ceiling in (record for record in records if isinstance(record, Ceiling)):
        mine = [run for run in runs if _belongs_to(store, run, ceiling.job_id)]
        spent = sum(run.spent_nano_usd for run in mine)
        if spent != ceiling.spent_nano_usd:
            yield f"12: {ceiling.job_id} has booked {ceiling.spent_nano_usd} of {spent} spent"


def _belongs_to(store: MemoryStore, run: Run, composite_id: str) -> bool:
    parent = run.parent_id
    while parent is not None and parent != composite_id:
        parent = store._jobs[parent].parent_id  # noqa: SLF001 - the checker reads internal state
    return parent is not None


def _rollups(dag: JobDag, jobs: Mapping[str, Job]) -> Iterator[str]:
    """Check that the final rollup of a composite matches its children."""
    leaves = [jobs[job.id] for job in dag.descendants if job.kind == "leaf"]
    counted: dict[str, int] = defaultdict(int)
    for leaf in leaves:
        if leaf.superseded_by is None:
            counted[leaf.stage] += 1
    rollup = dag.rollup
    if dict(counted) != rollup.stages or rollup.shipped != counted["shipped"] * 1:
        yield f"8.1: {dag.job.name} has rollup {rollup.stages}, but children {dict(counted)}"
