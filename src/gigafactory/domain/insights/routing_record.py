"""The learned-routing part of a scheduling decision, as stored."""

import msgspec

from gigafactory.domain.insights.routing_rollout import RolloutMode, RoutingSide


class ExpectedOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One option of a job, with its expected outcome."""

    engine: str
    factory_id: str
    success: float
    seconds: float
    cost_usd: float


class RoutingRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The options of a job, and the choices of each policy as indexes into them.

    For a job that explores, all options are stored; for others only those some policy would choose.
    """

    mode: RolloutMode
    trial: int
    side: RoutingSide
    explored: bool = False
    choices: tuple[ExpectedOutcome, ...]
    chosen: int
    heuristic: int
    learned: int
    stands_on: str = ""
    """The number of first attempts that the expectation of the choice is based on, as text."""
