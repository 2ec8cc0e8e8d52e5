"""Who had to make way for whom, read from the log, and held against what is promised of that."""

from collections.abc import Iterator, Mapping, Sequence

from gigafactory.domain.job.change import FeedEntry
from tests.simulation.tales import Scene, Tale

ORDER = ("critical", "high", "medium", "low")
TIMES_MAX = 2
WAITING = {"queued", "testing"}


def eviction_faults(tales: Mapping[str, Tale], entries: Sequence[FeedEntry]) -> Iterator[str]:
    """4.4: only the less urgent make way, for what waits, twice at most, and lose nothing."""
    for tale in tales.values():
        times = 0
        for scene in tale.scenes:
            if scene.event.type == "requeued":
                times = 0
            by = str(scene.event.data.get("by", ""))
            if scene.event.type == "preempt_requested" and by.startswith("job:"):
                yield from _evicted(tale, scene, tales[by.removeprefix("job:")], times)
            elif scene.event.type == "preempted" and by.startswith("job:"):
                # Whose lease ran out before it could hand back has not made way.
                times += 1
    for entry in entries:
        if entry.event.type == "preempted" and entry.job and not entry.job.front:
            yield f"4.4: {entry.job.title} made way, and has lost its place"


def _evicted(tale: Tale, scene: Scene, urgent: Tale, times: int) -> Iterator[str]:
    who = f"4.4: {tale.title} ({tale.priority}) is to make way for {urgent.title}"
    if urgent.priority != ORDER[0] or ORDER.index(tale.priority) <= ORDER.index(urgent.priority):
        yield f"{who}, which is {urgent.priority}"
    if scene.live is None or scene.live.step != "run":
        yield f"{who}, and is held as {scene.live}"
    if times >= TIMES_MAX:
        yield f"{who}, and did so {times} times before"
    before = [s for s in urgent.scenes if s.moment < scene.moment]
    if not before or before[-1].live is not None or before[-1].stage not in WAITING:
        yield f"{who}, which does not wait"
