"""Checks of 4.4 on the event log: which job was preempted for which."""

from collections.abc import Iterator, Mapping, Sequence

from gigafactory.domain.job.change import FeedEntry
from tests.simulation.job_histories import JobHistory, JobState

ORDER = ("critical", "high", "medium", "low")
TIMES_MAX = 2
WAITING = {"queued", "testing"}


def preemption_findings(
    histories: Mapping[str, JobHistory], entries: Sequence[FeedEntry]
) -> Iterator[str]:
    """Check 4.4: only less urgent jobs are preempted, at most twice, and stay first in line."""
    for history in histories.values():
        times = 0
        for state in history.states:
            if state.event.type == "requeued":
                times = 0
            by = str(state.event.data.get("by", ""))
            if state.event.type == "preempt_requested" and by.startswith("job:"):
                yield from _check_preemption(
                    history, state, histories[by.removeprefix("job:")], times
                )
            elif state.event.type == "preempted" and by.startswith("job:"):
                # A job whose lease expired before it handed back was not preempted.
                times += 1
    for entry in entries:
        if entry.event.type == "preempted" and entry.job and not entry.job.front:
            yield f"4.4: {entry.job.title} was preempted and lost its queue position"


def _check_preemption(
    history: JobHistory, state: JobState, urgent: JobHistory, times: int
) -> Iterator[str]:
    prefix = f"4.4: {history.title} ({history.priority}) is preempted for {urgent.title}"
    if urgent.priority != ORDER[0] or ORDER.index(history.priority) <= ORDER.index(urgent.priority):
        yield f"{prefix}, which is {urgent.priority}"
    if state.live is None or state.live.step != "run":
        yield f"{prefix} with lease {state.live}"
    if times >= TIMES_MAX:
        yield f"{prefix} after {times} preemptions"
    earlier = [s for s in urgent.states if s.moment < state.moment]
    if not earlier or earlier[-1].live is not None or earlier[-1].stage not in WAITING:
        yield f"{prefix}, which does not wait"
