"""The rollout of learned routing per product (off, shadow, ab, on), with automatic rollback."""

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
"""The fraction of jobs placed by learned routing; below 1, to keep a control group."""
EXPLORED = 0.05
"""The default fraction of jobs that explore in modes `ab` and `on`."""
EXPLORED_MAX = 0.5


class RolloutMode(StrEnum):
    """How far learned routing decides."""

    OFF = "off"
    SHADOW = "shadow"
    """Its choice is only recorded."""
    AB = "ab"
    """It decides for a fraction of the jobs."""
    ON = "on"
    """It decides for all jobs but a small control group."""


ACTING = frozenset({RolloutMode.AB, RolloutMode.ON})


class RoutingSide(StrEnum):
    """The policy that places a job."""

    LEARNED = "learned"
    HEURISTIC = "heuristic"


class GuardrailTrip(msgspec.Struct, frozen=True, rename="camel"):
    """A guardrail that rolled a product back; it stays so until a person sets a mode."""

    guardrail: str
    mode: RolloutMode
    """The mode before the rollback."""
    at: datetime
    reason: str


class RoutingRollout(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The rollout of one product, with the results of both sides so far."""

    kind: ClassVar[str] = "routing"
    expires_at: ClassVar[None] = None

    product_id: str
    mode: RolloutMode = RolloutMode.OFF
    share: float = 0.0
    """The fraction of jobs placed by learned routing."""
    explore: float = 0.0
    """The fraction of jobs that explore."""
    trial: int = 0
    """The number of this setting; decisions under an earlier one are not compared."""
    since: datetime | None = None
    by: str = ""
    learned: TrialArm = TrialArm()
    usual: TrialArm = TrialArm()
    tripped: GuardrailTrip | None = None
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key: one rollout per product."""
        return self.product_id

    def side(self, job_id: str) -> RoutingSide:
        """Return the policy that places a job; always the same for the same job."""
        chosen = self.mode in ACTING and hash_fraction(job_id, "side") < self.share
        return RoutingSide.LEARNED if chosen else RoutingSide.HEURISTIC

    def should_explore(self, job_id: str) -> bool:
        """Return whether a job explores."""
        return self.mode is not RolloutMode.OFF and hash_fraction(job_id, "explore") < self.explore


def hash_fraction(job_id: str, purpose: str) -> float:
    """Return a number in [0, 1) from a hash of the job and the purpose; independent per job."""
    digest = hashlib.blake2b(f"{purpose}/{job_id}".encode(), digest_size=7).digest()
    return int.from_bytes(digest) / 2.0**56


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
    """Return a product's rollout in a new mode: a new trial, without results or a trip."""
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
    """Return the rollout with more results on both sides; rolled back if a guardrail trips."""
    updated = replace(
        routing,
        learned=routing.learned.add(learned),
        usual=routing.usual.add(usual),
        rev=routing.rev + 1,
    )
    guardrail = judge(updated.learned, updated.usual).tripped if updated.mode in ACTING else None
    if guardrail is None:
        return updated
    reason = f"{_HARM[guardrail]}: {_describe_harm(guardrail, updated)}"
    # Shadow mode keeps recording, so that people can see whether it improves.
    return replace(
        updated,
        mode=RolloutMode.SHADOW,
        share=0.0,
        explore=0.0,
        trial=updated.trial + 1,
        tripped=GuardrailTrip(guardrail, routing.mode, now, reason),
    )


_HARM = {"success": "fewer jobs pass at once", "cost": "jobs cost more"}


def _describe_harm(guardrail: str, rollout: RoutingRollout) -> str:
    if guardrail == "success":
        sides = [(arm.passes, arm.tries) for arm in (rollout.learned, rollout.usual)]
        (passes, tries), (usual_passes, usual_tries) = sides
        return f"{passes} of {tries} with it, {usual_passes} of {usual_tries} without"
    more = rollout.learned.log_nanos / rollout.learned.priced
    more -= rollout.usual.log_nanos / rollout.usual.priced
    return f"{math.expm1(more / 1000) * 100:.0f} % more than without"
