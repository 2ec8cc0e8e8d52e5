"""Ceilings of composites: what all that is below one may spend together, and has."""

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
    """The budget of one composite; written with every report below it that spends."""

    kind: ClassVar[str] = "ceiling"
    expires_at: ClassVar[None] = None

    job_id: str
    product_id: str
    usd_nanos: int | None = None
    tokens: int | None = None
    spent_nano_usd: int = 0
    spent_tokens: int = 0
    reached_at: datetime | None = None
    """When all was spent; None while it is not."""
    rev: int = 1

    @property
    def key(self) -> str:
        """One ceiling a composite."""
        return self.job_id

    @property
    def exhausted(self) -> bool:
        """Whether all of the money, or all of the tokens, is spent."""
        poor = self.usd_nanos is not None and self.spent_nano_usd >= self.usd_nanos
        return poor or (self.tokens is not None and self.spent_tokens >= self.tokens)

    @property
    def summary(self) -> str:
        """How it stands, in words."""
        words = []
        if self.usd_nanos is not None:
            spent, ceiling = format_usd(self.spent_nano_usd), format_usd(self.usd_nanos)
            words.append(f"${spent} of ${ceiling}")
        if self.tokens is not None:
            words.append(f"{self.spent_tokens} of {self.tokens} tokens")
        return ", ".join(words)


def ceiling_of(composite: Job, budget: JobBudget | None) -> Ceiling | None:
    """The ceiling that a new composite has by its manifest; None for none."""
    if budget is None or (budget.usd_nanos is None and budget.tokens is None):
        return None
    return Ceiling(
        job_id=composite.id,
        product_id=composite.product_id,
        usd_nanos=budget.usd_nanos,
        tokens=budget.tokens,
    )


def charge(ceiling: Ceiling, before: Run, after: Run) -> Ceiling:
    """The ceiling after a report: what the run has spent since the last one is spent of it."""
    return replace(
        ceiling,
        spent_nano_usd=ceiling.spent_nano_usd + after.spent_nano_usd - before.spent_nano_usd,
        spent_tokens=ceiling.spent_tokens + after.spent_tokens - before.spent_tokens,
    )


def mark_over_budget(composite: Job, ceiling: Ceiling, *, now: datetime) -> JobChange:
    """Nothing below a composite begins any more: from this revision on no grant of it stands.

    It is the one whose ceiling was reached, or one that is below that.
    """
    note = {"composite": ceiling.job_id, "reason": f"all is spent: {ceiling.summary}"}
    flags = tuple(dict.fromkeys((*composite.flags, OVER_BUDGET)))
    return transition(
        composite, None, (event_types.CEILING_REACHED, note), actor=ACTOR, now=now, flags=flags
    )
