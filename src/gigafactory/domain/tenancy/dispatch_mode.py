"""Ways of dispatch: how a product's jobs reach factories, and when another way may take over."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from gigafactory.domain.errors import Conflict

ENOUGH = 200
"""So many comparisons, at least, before the dispatcher takes over."""
AGREEMENT_MIN = 0.99
AS_GOOD = 0.25
"""A factory whose score is lower by no more than this is as good: who asks first is chance."""
NOTICED_AFTER = timedelta(seconds=1)
"""A job that went sooner may have gone before the dispatcher could look at it."""
DIFFERENCES_MAX = 20
"""So many of the newest differences are kept for people to look at."""


class Way(StrEnum):
    """How jobs reach factories."""

    PUSH = "push"
    """The dispatcher offers them."""
    SHADOW = "shadow"
    """Factories ask; the dispatcher decides and publishes, and nothing acts on it."""
    PULL = "pull"
    """Factories ask."""


class Outcome(StrEnum):
    """What came of comparing a decision of the dispatcher with what really happened."""

    AGREE = "agree"
    DIVERGE = "diverge"
    ONLY_SHADOW = "only_shadow"
    """It would have offered the job, and nobody asked for it in time."""
    ONLY_REAL = "only_real"
    """Somebody asked for the job and got it, and it had offered it to nobody."""


class Placing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One job on one factory, and how good that was when it was decided."""

    factory_id: str
    engine: str | None
    score: float


class Difference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One comparison that did not agree."""

    job_id: str
    outcome: Outcome
    at: datetime
    shadow: Placing | None = None
    real: Placing | None = None


class Outcomes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many comparisons came to what."""

    agree: int = 0
    same: int = 0
    """Of those that agree: the very same factory."""
    diverge: int = 0
    only_shadow: int = 0
    only_real: int = 0

    def plus(self, other: "Outcomes") -> "Outcomes":
        """Both together."""
        names = Outcomes.__struct_fields__
        return Outcomes(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def decisions(self) -> int:
        """All comparisons."""
        return self.agree + self.diverge + self.only_shadow + self.only_real

    @property
    def agreement(self) -> float:
        """The share that agrees; none without any comparison."""
        return self.agree / self.decisions if self.decisions else 0.0


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What some comparisons came to."""

    counts: Outcomes = Outcomes()
    differences: tuple[Difference, ...] = ()

    def plus(self, other: "Findings") -> "Findings":
        """Both together, with the newest differences."""
        kept = (*self.differences, *other.differences)[-DIFFERENCES_MAX:]
        return Findings(counts=self.counts.plus(other.counts), differences=kept)


class Comparison(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a product's last time in shadow came to so far."""

    kind: ClassVar[str] = "comparison"
    expires_at: ClassVar[None] = None

    product_id: str
    since: datetime
    counts: Outcomes = Outcomes()
    differences: tuple[Difference, ...] = ()
    """The newest, in their order."""
    rev: int = 1

    @property
    def key(self) -> str:
        """One a product."""
        return self.product_id

    def with_more(self, found: Findings) -> "Comparison":
        """The comparison with further findings."""
        both = Findings(counts=self.counts, differences=self.differences).plus(found)
        return replace(self, counts=both.counts, differences=both.differences, rev=self.rev + 1)

    @property
    def conclusive(self) -> bool:
        """Whether it lets the dispatcher take over."""
        return self.counts.decisions >= ENOUGH and self.counts.agreement >= AGREEMENT_MIN


def compared(
    job_id: str, shadow: Placing | None, real: Placing | None, *, now: datetime
) -> Findings:
    """Judge one decision: the same factory and engine, or one as good by the same score, agrees."""
    outcome = _outcome(shadow, real)
    same = _same(shadow, real)
    counts = Outcomes(**{outcome: 1}, same=int(same))
    if outcome is Outcome.AGREE:
        return Findings(counts=counts)
    told = Difference(job_id=job_id, outcome=outcome, at=now, shadow=shadow, real=real)
    return Findings(counts=counts, differences=(told,))


def _outcome(shadow: Placing | None, real: Placing | None) -> Outcome:
    if shadow is None:
        return Outcome.ONLY_REAL
    if real is None:
        return Outcome.ONLY_SHADOW
    elsewhere = shadow.factory_id != real.factory_id
    as_good = elsewhere and real.score >= shadow.score - AS_GOOD
    return Outcome.AGREE if as_good or _same(shadow, real) else Outcome.DIVERGE


def _same(shadow: Placing | None, real: Placing | None) -> bool:
    if shadow is None or real is None:
        return False
    return (shadow.factory_id, shadow.engine) == (real.factory_id, real.engine)


def require_cut_over(product_id: str, known: Comparison | None) -> None:
    """Refuse to let the dispatcher take over before it was seen to decide as well.

    Raises Conflict.
    """
    if known is not None and known.conclusive:
        return
    counts = known.counts if known is not None else Outcomes()
    raise Conflict(
        f"product {product_id} has {counts.decisions:,} comparisons at {counts.agreement:.1%}"
        f" agreement, and the dispatcher takes over after {ENOUGH} at {AGREEMENT_MIN:.0%}: let it"
        " run in shadow for longer (`aq shadow` shows what differs), or force it"
    )
