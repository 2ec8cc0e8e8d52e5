"""Checks of 2.1: a job that kills its hosts ends, and no other."""

from collections.abc import Iterator, Mapping, Sequence

from tests.simulation.history import Exchange
from tests.simulation.job_histories import JobHistory, JobState

LOST_PROCESSES_MAX = 3
LOST_LEASES_MAX = 10
NO_PROGRESS = {"offered", "offer_expired", "assigned", "started", "fenced", "usage", "taken_up"}
"""Events that leave a series of lost leases as it is; any other may end the series."""
Instances = Mapping[tuple[str, int], str]
"""The process that each epoch of a job was granted to."""


def poison_findings(
    exchanges: Sequence[Exchange], histories: Mapping[str, JobHistory], granted: Instances
) -> Iterator[str]:
    """Check 2.1: a job is dead-lettered after three lost processes in a row, and never before."""
    heartbeats = [e for e in exchanges if e.verb == "heartbeat" and e.accepted]
    for history in histories.values():
        yield from _lost_too_often(history, granted, heartbeats)
        yield from _ended_too_early(history)


def _lost_too_often(
    history: JobHistory, granted: Instances, heartbeats: Sequence[Exchange]
) -> Iterator[str]:
    process: str | None = None
    lost: list[tuple[str, str]] = []
    for last, state in zip([None, *history.states], history.states, strict=False):
        event, data = state.event, state.event.data
        if event.type == "assigned":
            process = granted.get((history.job_id, data["epoch"]))
        elif event.type == "taken_up":
            process = data["instanceId"]
        elif _is_lost(last, state):
            lost.append((data["factoryId"], process or ""))
            dead = _replaced(lost, state, heartbeats)
            too_often = len(dead) >= LOST_PROCESSES_MAX or len(lost) >= LOST_LEASES_MAX
            ended = any(
                s.moment == state.moment and s.event.type == "dead_lettered" for s in history.states
            )
            if too_often and not ended:
                yield f"2.1: {history.title} goes on after {lost}, of which {sorted(dead)} are gone"
        elif event.type not in NO_PROGRESS:
            lost = []


def _is_lost(last: JobState | None, state: JobState) -> bool:
    """Return whether a run lost its lease, and not because it was asked to hand back."""
    run = last is not None and last.live is not None and last.live.step == "run"
    return run and state.event.type == "lease_expired" and "by" not in state.event.data


def _replaced(
    lost: Sequence[tuple[str, str]], state: JobState, heartbeats: Sequence[Exchange]
) -> set[str]:
    """Return the lost processes that another process of the same factory had replaced."""
    ended_by = state.event.actor.removeprefix("factory:")
    dead = {process for factory, process in lost[-1:] if process and factory == ended_by}
    for factory, process in lost:
        mine = [h for h in heartbeats if h.request["factory"] == factory]
        last_sign = max((h.requested for h in mine if h.request["instance"] == process), default=0)
        replaced = any(
            h.request["instance"] != process
            and h.requested > last_sign
            and (h.served or state.moment) < state.moment
            for h in mine
        )
        if process and last_sign and replaced:
            dead.add(process)
    return dead


def _ended_too_early(history: JobHistory) -> Iterator[str]:
    lost = 0
    for last, state in zip([None, *history.states], history.states, strict=False):
        event = state.event
        if event.type in {"requeued", "checkpoint"}:
            lost = 0
        lost += _is_lost(last, state)
        poison = event.type == "dead_lettered" and event.data["result"] == "poison"
        if poison and lost < LOST_PROCESSES_MAX:
            yield f"2.1: {history.title} is poison after {lost} lost leases"
