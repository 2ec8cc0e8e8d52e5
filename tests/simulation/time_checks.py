"""Checks of 3.2, 3.3 and 15.2: how long leases last by the server's time."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from tests.simulation.job_histories import JobHistory
from tests.simulation.simulation import Simulation

GAP_MIN = timedelta(seconds=21)
"""Shorter gaps fit into the time between a renewal and the end of the lease."""
CLOCK_SKEW_MAX = timedelta(seconds=1)
PREEMPTED_WITHIN = timedelta(seconds=60)
REAPED_WITHIN = timedelta(seconds=30)
"""Generous: stalled coordinators and slow stores delay the reaper."""
COMMIT_DELAY_MAX = timedelta(seconds=10)
"""Generous: a slow store delays the commit of a decision."""


def gap_findings(
    simulation: Simulation,
    histories: Mapping[str, JobHistory],
    expiries: Mapping[tuple[str, int], datetime],
) -> Iterator[str]:
    """Check 3.3: a lease that could not be renewed is extended by the length of the outage.

    A grant that was decided before the gap and stored after it starts in the past.
    """
    for moment, start, end in simulation.history.gaps:
        gap = end - start
        for (job_id, epoch), expiry in expiries.items():
            history = histories[job_id]
            running = start <= expiry <= start + simulation.lease_ttl
            running = running and history.granted(epoch) < moment
            if gap < GAP_MIN or not running or history.preempted:
                continue
            for event in (state.event for state in history.states):
                mine = event.type == "lease_expired" and event.data["epoch"] == epoch
                early = end < event.at < expiry + gap - CLOCK_SKEW_MAX
                if mine and early and event.actor == "system:reaper":
                    yield f"3.3: {job_id} expires at {event.at:%X}, despite a gap of {gap}"


def preempted_findings(
    simulation: Simulation, histories: Mapping[str, JobHistory]
) -> Iterator[str]:
    """Check 3.2: a run that is asked to hand back does so in 60 s, or loses its lease.

    Not checked where an outage or a crash of a coordinator can extend leases.
    """
    if simulation.faults.outages or simulation.faults.coordinator_crashes:
        return
    for history in histories.values():
        for number, state in enumerate(history.states):
            if state.event.type != "preempt_requested" or state.live is None:
                continue
            epoch, asked_at = state.live.epoch, state.event.at
            for later in history.states[number:]:
                late = later.event.at - asked_at > PREEMPTED_WITHIN + REAPED_WITHIN
                if late:
                    yield f"3.2: {history.title} keeps epoch {epoch}, asked back at {asked_at:%X}"
                if late or later.live is None or later.live.epoch != epoch:
                    break


def delay_findings(simulation: Simulation) -> Iterator[str]:
    """Check 15.2: server time advances evenly, so no step of a wall clock changes a lease.

    Not checked where faults can delay a coordinator between a decision and its commit.
    """
    faults = simulation.faults
    if faults.outages or faults.coordinator_crashes or faults.stalls or faults.disconnects:
        return
    for event, at in simulation.history.times:
        delay = simulation.time_of(at) - event.at
        if abs(delay) > COMMIT_DELAY_MAX:
            yield f"15.2: the server's time is {delay} late at {event.type} of {event.job_id}"
