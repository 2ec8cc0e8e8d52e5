"""Ceilings: the shared budget of all descendants of a composite."""

from datetime import datetime
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from gigafactory.domain.job import event_types
from gigafactory.domain.job.change import JobChange
from gigafactory.domain.job.job import OVER_BUDGET, Job
from gigafactory.domain.job.lifecycle import transition
from gigafactory.domain.job.run import Run
from gigafactory.domain.manifest.manifest import JobBudget
from gigafactory.domain.manifest.units import format_usd

ACTOR = "system:budget"


class Ceiling(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The budget of one composite and the amount spent by its descendants."""

    kind: ClassVar[str] = "ceiling"
    expires_at: ClassVar[None] = None

    job_id: str
    product_id: str
    usd_nanos: int | None = None
    tokens: int | None = None
    spent_nano_usd: int = 0
    spent_tokens: int = 0
    reached_at: datetime | None = None
    """When the budget was spent; None before."""
    rev: int = 1

    @property
    def key(self) -> str:
        """The id of the composite."""
        return self.job_id

    @property
    def exhausted(self) -> bool:
        """Whether the money or the tokens are spent."""
        usd_spent = self.usd_nanos is not None and self.spent_nano_usd >= self.usd_nanos
        return usd_spent or (self.tokens is not None and self.spent_tokens >= self.tokens)

    @property
    def summary(self) -> str:
        """Spent and allowed amounts, as text."""
        words = []
        if self.usd_nanos is not None:
            spent, ceiling = format_usd(self.spent_nano_usd), format_usd(self.usd_nanos)
            words.append(f"${spent} of ${ceiling}")
        if self.tokens is not None:
            words.append(f"{self.spent_tokens} of {self.tokens} tokens")
        return ", ".join(words)


def ceiling_of(composite: Job, budget: JobBudget | None) -> Ceiling | None:
    """Return the ceiling of a new composite; None without a budget."""
    if budget is None or (budget.usd_nanos is None and budget.tokens is None):
        return None
    return Ceiling(
        job_id=composite.id,
        product_id=composite.product_id,
        usd_nanos=budget.usd_nanos,
        tokens=budget.tokens,
    )


def charge(ceiling: Ceiling, before: Run, after: Run) -> Ceiling:
    """Return the ceiling with the amount that the run spent between two reports."""
    return replace(
        ceiling,
        spent_nano_usd=ceiling.spent_nano_usd + after.spent_nano_usd - before.spent_nano_usd,
        spent_tokens=ceiling.spent_tokens + after.spent_tokens - before.spent_tokens,
    )


def mark_over_budget(composite: Job, ceiling: Ceiling, *, now: datetime) -> JobChange:
    """Flag a composite as over budget, so that none of its descendants starts.

    It is the composite whose ceiling was reached, or a composite below it.
    """
    note = {"composite": ceiling.job_id, "reason": f"the budget is spent: {ceiling.summary}"}
    flags = tuple(dict.fromkeys((*composite.flags, OVER_BUDGET)))
    return transition(
        composite, None, (event_types.CEILING_REACHED, note), actor=ACTOR, now=now, flags=flags
    )
