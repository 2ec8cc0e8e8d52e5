"""Fault rates of a history: drawn from the seed, or a named scenario."""

import random
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class FaultRates:
    """Rates of faults while they are enabled; a share is a probability."""

    coordinators: int = 1
    fault_phase_s: float = 60.0
    slow_store: float = 0.0
    """Share of slow store calls."""
    lost_commits: float = 0.0
    """Share of commits with an unknown result."""
    missed_wakeups: float = 0.0
    """Share of waits for the change feed that miss a change."""
    outages: float = 0.0
    """Store outages per minute, of one coordinator or of all."""
    lost_messages: float = 0.0
    """Share of requests, and of responses, that never arrive."""
    late_messages: float = 0.0
    duplicate_messages: float = 0.0
    coordinator_crashes: float = 0.0
    """Per minute, like all rates below."""
    machine_crashes: float = 0.0
    stalls: float = 0.0
    """Pauses of a coordinator process, which then continues as if no time had passed."""
    pauses: float = 0.0
    clock_jumps: float = 0.0
    disconnects: float = 0.0
    """Share of calls whose handler is cancelled, as some servers do on a disconnect."""
    duplicate_ids: bool = False
    """Whether a second process runs under the id of the first factory."""
    interventions: float = 0.0
    """Operator actions on switches, tokens and factories per minute."""


CALM = FaultRates()

SCENARIOS: dict[str, FaultRates] = {
    "calm": CALM,
    "pair": FaultRates(
        coordinators=2, slow_store=0.1, missed_wakeups=0.2, stalls=2, interventions=3
    ),
    "race": FaultRates(
        coordinators=2,
        slow_store=0.5,
        missed_wakeups=0.5,
        stalls=3,
        duplicate_ids=True,
        fault_phase_s=40,
    ),
    "network": FaultRates(
        lost_messages=0.06,
        late_messages=0.1,
        duplicate_messages=0.1,
        disconnects=0.02,
        interventions=1,
    ),
    "store": FaultRates(
        slow_store=0.15, lost_commits=0.05, missed_wakeups=0.3, outages=2, coordinators=2
    ),
    "crashes": FaultRates(
        coordinator_crashes=2,
        machine_crashes=3,
        lost_commits=0.02,
        slow_store=0.1,
        duplicate_ids=True,
    ),
    "pauses": FaultRates(pauses=8, clock_jumps=4, slow_store=0.4, late_messages=0.05),
    "interventions": FaultRates(
        coordinators=2, slow_store=0.2, interventions=12, late_messages=0.05, stalls=2
    ),
    "storm": FaultRates(
        coordinators=2,
        slow_store=0.2,
        lost_commits=0.04,
        missed_wakeups=0.3,
        outages=1,
        lost_messages=0.04,
        late_messages=0.08,
        duplicate_messages=0.06,
        coordinator_crashes=1.5,
        machine_crashes=2,
        pauses=3,
        stalls=1,
        clock_jumps=0.5,
        disconnects=0.01,
        duplicate_ids=True,
        interventions=4,
    ),
}
"""Named fault rates; a seed without a scenario draws one of them."""


def faults_of(seed: int, scenario: str | None = None) -> FaultRates:
    """Return the fault rates of a seed: the named scenario, or the one that the seed draws."""
    rng = random.Random(f"weather {seed}")
    name = scenario or rng.choice(sorted(SCENARIOS))
    chosen = SCENARIOS[name]
    return replace(chosen, fault_phase_s=rng.uniform(22.0, 55.0))
