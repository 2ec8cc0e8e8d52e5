"""Records of insights: run roll-ups, advice, objectives."""

from gigafactory.wire.fields import Money, ResponseView


class RunRollupView(ResponseView, frozen=True, kw_only=True):
    """What a group of runs came to; the shipping of their work is not among them."""

    group: str
    runs: int
    running: int
    """Of one job or composite; fleet-wide, only runs that have ended are counted."""
    jobs: int
    results: dict[str, int]
    tokens_in: int
    tokens_cached: int
    tokens_cache_write: int
    tokens_out: int
    tokens_reasoning: int
    cost_usd: Money
    """Of the runs whose cost is known."""
    cost_nano_usd: int
    estimated: int
    """Runs whose cost was worked out from prices."""
    unmetered: int
    """Runs that have ended without anybody knowing their cost."""
    wall_sec: float
    first_pass: float | None
    """The share of jobs that came out well at once, 0 to 1."""
    first_passes: int
    first_tries: int
    approved: int
    rejected: int
    changes_requested: int
    shipped: int
    """Jobs that were shipped, on the day of their shipping; 0 where a `job` was asked for."""
    escaped: int
    """Those of them that were reverted or named in a bug afterwards."""
    cost_of_shipped_usd: Money | None
    """What a shipped job has cost; null while none was shipped."""
    waits: int
    """Grants of such jobs since the coordinator that answers began; 0 by day, product and job."""
    wait_sec: float
    """How long all of them waited for a factory."""


class AdviceView(ResponseView, frozen=True, kw_only=True):
    """What first tries of this month and the two before say about engines, in words."""

    by: str
    """`all`, or what the work has in common: `profile` or `repo`, where that was asked for."""
    group: str
    engine: str | None
    """The one that is clearly ahead; null while there are too few tries, or none is."""
    first_tries: int
    says: str
    """With the number of tries and the 95 % interval of each share that it names."""


class ObjectiveView(ResponseView, frozen=True, kw_only=True):
    """An objective, what was counted against it, and what is left of its error budget."""

    objective: str
    promise: str
    allowed: float
    """The share that may go wrong, 0 to 1."""
    wrong: int
    of: int
    """0 where nothing was measured."""
    share: float | None
    """What went wrong."""
    left: float | None
    """The part of the error budget that is left: 1 untouched, 0 spent, below 0 overspent."""
    window: str
    """Over which time it was counted, for people."""


class InsightsView(ResponseView, frozen=True, kw_only=True):
    """All runs together, and in groups by each of what was asked for."""

    total: RunRollupView
    by: dict[str, tuple[RunRollupView, ...]]
    advice: tuple[AdviceView, ...]
    """First about all work; empty where a `job` was asked for."""
    objectives: tuple[ObjectiveView, ...]
    """Empty where a `job` was asked for."""
