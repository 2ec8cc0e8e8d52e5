"""Rollout: how far a product lets what was learned decide, and how it goes back by itself."""

import hashlib
import math
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from gigafactory.domain.insights.guardrail import TrialArm, judge

AB_SHARE = 0.5
ON_SHARE = 0.9
"""The share of jobs that go by what was learned; some never do, or nobody could compare."""
EXPLORED = 0.05
"""The share of jobs that explore where nothing else is said, once anything is acted on."""
EXPLORED_MAX = 0.5


class RolloutMode(StrEnum):
    """How far what was learned decides."""

    OFF = "off"
    SHADOW = "shadow"
    """It is recorded what it would have chosen, and nothing else."""
    AB = "ab"
    """It decides for a share of the jobs."""
    ON = "on"
    """It decides, but for the few jobs that it is compared with."""


ACTING = frozenset({RolloutMode.AB, RolloutMode.ON})


class RoutingSide(StrEnum):
    """By what a job is placed."""

    LEARNED = "learned"
    HEURISTIC = "heuristic"


class GuardrailTrip(msgspec.Struct, frozen=True, rename="camel"):
    """A guardrail that has switched a product back, until a person says how to go on."""

    guardrail: str
    mode: RolloutMode
    """The one that it was switched back from."""
    at: datetime
    reason: str


class RoutingRollout(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The rollout of one product, with what both sides of it came to so far."""

    kind: ClassVar[str] = "routing"
    expires_at: ClassVar[None] = None

    product_id: str
    mode: RolloutMode = RolloutMode.OFF
    share: float = 0.0
    """Of the jobs, go by what was learned."""
    explore: float = 0.0
    """Of the jobs, explore among what they could have had."""
    trial: int = 0
    """Counts the settings: what was decided under another one is not compared."""
    since: datetime | None = None
    by: str = ""
    learned: TrialArm = TrialArm()
    usual: TrialArm = TrialArm()
    tripped: GuardrailTrip | None = None
    rev: int = 1

    @property
    def key(self) -> str:
        """One a product."""
        return self.product_id

    def side(self, job_id: str) -> RoutingSide:
        """By what a job is placed: always the same for the same job."""
        chosen = self.mode in ACTING and hash_fraction(job_id, "side") < self.share
        return RoutingSide.LEARNED if chosen else RoutingSide.HEURISTIC

    def should_explore(self, job_id: str) -> bool:
        """Whether a job tries something else than the best."""
        return self.mode is not RolloutMode.OFF and hash_fraction(job_id, "explore") < self.explore


def hash_fraction(job_id: str, what: str) -> float:
    """A number from 0 to below 1 that is a job's own, and tells nothing of any other."""
    drawn = hashlib.blake2b(f"{what}/{job_id}".encode(), digest_size=7).digest()
    return int.from_bytes(drawn) / 2.0**56


def set_rollout(
    before: RoutingRollout | None,
    product_id: str,
    mode: RolloutMode,
    *,
    by: str,
    now: datetime,
    share: float | None = None,
    explore: float | None = None,
) -> RoutingRollout:
    """A product's rollout as somebody sets it: a new comparison, and no alarm of the last one."""
    usual = {RolloutMode.AB: AB_SHARE, RolloutMode.ON: ON_SHARE}.get(mode, 0.0)
    explored = EXPLORED if mode in ACTING else 0.0
    return RoutingRollout(
        product_id=product_id,
        mode=mode,
        share=usual if share is None or mode not in ACTING else share,
        explore=explored if explore is None or mode is RolloutMode.OFF else explore,
        trial=before.trial + 1 if before else 1,
        since=now,
        by=by,
        rev=before.rev + 1 if before else 1,
    )


def add_trials(
    routing: RoutingRollout, learned: TrialArm, usual: TrialArm, *, now: datetime
) -> RoutingRollout:
    """The rollout with more tries on both sides; switched back when they show harm."""
    known = replace(
        routing,
        learned=routing.learned.add(learned),
        usual=routing.usual.add(usual),
        rev=routing.rev + 1,
    )
    guardrail = judge(known.learned, known.usual).tripped if known.mode in ACTING else None
    if guardrail is None:
        return known
    reason = f"{_HARM[guardrail]}: {_told(guardrail, known)}"
    # What was learned is recorded on, so that people can see whether it gets better.
    return replace(
        known,
        mode=RolloutMode.SHADOW,
        share=0.0,
        explore=0.0,
        trial=known.trial + 1,
        tripped=GuardrailTrip(guardrail, routing.mode, now, reason),
    )


_HARM = {"success": "fewer jobs pass at once", "cost": "jobs cost more"}


def _told(guardrail: str, known: RoutingRollout) -> str:
    if guardrail == "success":
        sides = [(arm.passes, arm.tries) for arm in (known.learned, known.usual)]
        (passes, tries), (usual_passes, usual_tries) = sides
        return f"{passes} of {tries} where learned, {usual_passes} of {usual_tries} elsewhere"
    more = known.learned.log_nanos / known.learned.priced
    more -= known.usual.log_nanos / known.usual.priced
    return f"{math.expm1(more / 1000) * 100:.0f} % more than elsewhere"
