"""What goes wrong in one history, and how often: drawn from the seed, or named."""

import random
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Weather:
    """How bad things are while the chaos lasts; every share is a probability."""

    coordinators: int = 1
    chaos_s: float = 60.0
    slow_store: float = 0.0
    """Share of store calls that take long."""
    lost_commits: float = 0.0
    """Share of commits with an unknown result."""
    missed_bells: float = 0.0
    """Share of waits for the feed that miss its going on."""
    outages: float = 0.0
    """Store outages a minute, of one coordinator or of all."""
    lost_messages: float = 0.0
    """Share of requests, and of answers, that never arrive."""
    late_messages: float = 0.0
    doubled_messages: float = 0.0
    coordinator_crashes: float = 0.0
    """A minute, as all that follow."""
    machine_crashes: float = 0.0
    stalls: float = 0.0
    """A coordinator stands still for a while, and goes on as if nothing had been."""
    pauses: float = 0.0
    clock_jumps: float = 0.0
    hang_ups: float = 0.0
    """Share of calls whose handler is cancelled under way, as some servers do on a disconnect."""
    twins: bool = False
    """A second process runs under the id of the first factory."""
    meddling: float = 0.0
    """What operators do to switches, tokens and factories, a minute."""


CALM = Weather()

SCENARIOS: dict[str, Weather] = {
    "calm": CALM,
    "pair": Weather(coordinators=2, slow_store=0.1, missed_bells=0.2, stalls=2, meddling=3),
    "race": Weather(
        coordinators=2, slow_store=0.5, missed_bells=0.5, stalls=3, twins=True, chaos_s=40
    ),
    "network": Weather(
        lost_messages=0.06, late_messages=0.1, doubled_messages=0.1, hang_ups=0.02, meddling=1
    ),
    "store": Weather(
        slow_store=0.15, lost_commits=0.05, missed_bells=0.3, outages=2, coordinators=2
    ),
    "crashes": Weather(
        coordinator_crashes=2, machine_crashes=3, lost_commits=0.02, slow_store=0.1, twins=True
    ),
    "pauses": Weather(pauses=8, clock_jumps=4, slow_store=0.4, late_messages=0.05),
    "meddling": Weather(coordinators=2, slow_store=0.2, meddling=12, late_messages=0.05, stalls=2),
    "storm": Weather(
        coordinators=2,
        slow_store=0.2,
        lost_commits=0.04,
        missed_bells=0.3,
        outages=1,
        lost_messages=0.04,
        late_messages=0.08,
        doubled_messages=0.06,
        coordinator_crashes=1.5,
        machine_crashes=2,
        pauses=3,
        stalls=1,
        clock_jumps=0.5,
        hang_ups=0.01,
        twins=True,
        meddling=4,
    ),
}
"""Weathers with a name; a seed without one draws any of these, or a mixture of two."""


def weather_of(seed: int, scenario: str | None = None) -> Weather:
    """The weather of a seed: the named one, or what the seed draws."""
    rng = random.Random(f"weather {seed}")
    name = scenario or rng.choice(sorted(SCENARIOS))
    chosen = SCENARIOS[name]
    return replace(chosen, chaos_s=rng.uniform(22.0, 55.0))
