"""What is recorded of a decision that what was learned had, or would have had, a say in."""

import msgspec

from gigafactory.domain.insights.routing_rollout import RolloutMode, RoutingSide


class ExpectedOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One choice that a job had, and what was expected of it."""

    engine: str
    factory_id: str
    success: float
    seconds: float
    cost_usd: float


class RoutingRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which choices there were, and who would have chosen what; numbers are places among them.

    Of a job that explores all choices are kept, of others only those that somebody would have made.
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
    """In words, the first tries that the expectation of the chosen one stands on."""
