"""Service level objectives (SLOs), their error budgets and measurements."""

from enum import StrEnum

import msgspec

ASSIGN_WITHIN_S = 5.0
WAIT_WITHIN_S = 120.0
RECLAIM_WITHIN_S = 5.0
UNFAIR_TIMES = 3.0
UNFAIR_FROM_S = 30.0
"""Shorter waits never count as unfair."""


class Objective(StrEnum):
    """A service level objective; the rules in `deploy/prometheus` use the same names."""

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
"""The allowed fraction of failures; a test compares it with the Prometheus rules.

Objectives not listed here allow no failure at all.
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
    """The measurement of an objective over a window."""

    objective: Objective
    wrong: int
    of: int
    """The total number of events; 0 when nothing was measured."""
    window: str
    """The time window, as text."""

    @property
    def promise(self) -> str:
        """The promise in words, with its percentage."""
        promise, allowed = PROMISES[self.objective], ERROR_BUDGETS.get(self.objective)
        return promise if allowed is None else f"{promise}, {100 - allowed * 100:g} % of the time"

    @property
    def share(self) -> float | None:
        """The fraction of failures, 0 to 1; None when nothing was measured."""
        return self.wrong / self.of if self.of else None

    @property
    def error_budget_left(self) -> float | None:
        """The fraction of the error budget left: 1 untouched, 0 spent, negative overspent."""
        share, allowed = self.share, ERROR_BUDGETS.get(self.objective)
        if share is None:
            return None
        return float(not self.wrong) if allowed is None else 1 - share / allowed
