"""Objectives of the service: how much may go wrong, and what is left of that."""

from enum import StrEnum

import msgspec

ASSIGN_WITHIN_S = 5.0
WAIT_WITHIN_S = 120.0
RECLAIM_WITHIN_S = 5.0
UNFAIR_TIMES = 3.0
UNFAIR_FROM_S = 30.0
"""Shorter waits are no hardship, however much they differ."""


class Objective(StrEnum):
    """What is promised; the rules of `deploy/prometheus` have the same names."""

    ASSIGNMENT = "assignment"
    WAIT = "wait"
    FIRST_PASS = "first-pass"  # noqa: S105 - no password
    ESCAPED = "escaped-defects"
    BUDGET = "budget"
    DEAD_LETTERS = "dead-letters"
    RECLAIM = "reclaim"
    UTILIZATION = "utilization"
    FAIR_WAITS = "fair-waits"
    DOUBLE_MERGES = "double-merges"
    DOUBLE_CLAIMS = "claim-violations"


ERROR_BUDGETS: dict[Objective, float] = {
    Objective.ASSIGNMENT: 0.05,
    Objective.WAIT: 0.05,
    Objective.FIRST_PASS: 0.30,
    Objective.ESCAPED: 0.02,
    Objective.BUDGET: 0.01,
    Objective.DEAD_LETTERS: 0.05,
    Objective.RECLAIM: 0.001,
    Objective.UTILIZATION: 0.40,
}
"""The share that may go wrong; a test holds the rules of Prometheus to it.

Of the others nothing may: they have no error budget to spend.
"""

PROMISES: dict[Objective, str] = {
    Objective.ASSIGNMENT: "a job goes to a free factory within 5 seconds",
    Objective.WAIT: "a job that can run waits less than 2 minutes",
    Objective.FIRST_PASS: "the first run of a job comes out well",
    Objective.ESCAPED: "what was shipped is neither reverted nor named in a bug",
    Objective.BUDGET: "a job ends within its budget",
    Objective.DEAD_LETTERS: "a job ends otherwise than as a dead letter",
    Objective.RECLAIM: "a lost lease is taken back within 5 seconds",
    Objective.UTILIZATION: "60 % of the slots work while jobs wait",
    Objective.FAIR_WAITS: "no product waits 3 times as long as another",
    Objective.DOUBLE_MERGES: "no job is shipped twice",
    Objective.DOUBLE_CLAIMS: "no job is given to two factories at once",
}


class SloMeasurement(msgspec.Struct, frozen=True, rename="camel"):
    """What was counted against an objective."""

    objective: Objective
    wrong: int
    of: int
    """How many there were in all; 0 where nothing was measured."""
    window: str
    """Over which time, for people."""

    @property
    def promise(self) -> str:
        """What is promised, with how often it is."""
        promise, allowed = PROMISES[self.objective], ERROR_BUDGETS.get(self.objective)
        return promise if allowed is None else f"{promise}, {100 - allowed * 100:g} % of the time"

    @property
    def share(self) -> float | None:
        """What went wrong, 0 to 1; None where nothing was measured."""
        return self.wrong / self.of if self.of else None

    @property
    def error_budget_left(self) -> float | None:
        """The part of the error budget that is left: 1 untouched, 0 spent, below 0 overspent."""
        share, allowed = self.share, ERROR_BUDGETS.get(self.objective)
        if share is None:
            return None
        return float(not self.wrong) if allowed is None else 1 - share / allowed
