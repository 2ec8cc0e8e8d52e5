"""Rollout: how far a product lets what was learned decide, and how it goes back by itself."""

import hashlib
import math
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from gigafactory.domain.insights.guardrail import Arm, judged

AB_SHARE = 0.5
ON_SHARE = 0.9
"""The share of jobs that go by what was learned; some never do, or nobody could compare."""
EXPLORED = 0.05
"""The share of jobs that explore where nothing else is said, once anything is acted on."""
EXPLORED_MAX = 0.5


class Mode(StrEnum):
    """How far what was learned decides."""

    OFF = "off"
    SHADOW = "shadow"
    """It is recorded what it would have chosen, and nothing else."""
    AB = "ab"
    """It decides for a share of the jobs."""
    ON = "on"
    """It decides, but for the few jobs that it is compared with."""


ACTING = frozenset({Mode.AB, Mode.ON})


class Side(StrEnum):
    """By what a job is placed."""

    LEARNED = "learned"
    HEURISTIC = "heuristic"


class Tripped(msgspec.Struct, frozen=True, rename="camel"):
    """A guardrail that has switched a product back, until a person says how to go on."""

    guardrail: str
    mode: Mode
    """The one that it was switched back from."""
    at: datetime
    reason: str


class Routing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The rollout of one product, with what both sides of it came to so far."""

    kind: ClassVar[str] = "routing"
    expires_at: ClassVar[None] = None

    product_id: str
    mode: Mode = Mode.OFF
    share: float = 0.0
    """Of the jobs, go by what was learned."""
    explore: float = 0.0
    """Of the jobs, explore among what they could have had."""
    trial: int = 0
    """Counts the settings: what was decided under another one is not compared."""
    since: datetime | None = None
    by: str = ""
    learned: Arm = Arm()
    usual: Arm = Arm()
    tripped: Tripped | None = None
    rev: int = 1

    @property
    def key(self) -> str:
        """One a product."""
        return self.product_id

    def side(self, job_id: str) -> Side:
        """By what a job is placed: always the same for the same job."""
        chosen = self.mode in ACTING and lot(job_id, "side") < self.share
        return Side.LEARNED if chosen else Side.HEURISTIC

    def explores(self, job_id: str) -> bool:
        """Whether a job tries something else than the best."""
        return self.mode is not Mode.OFF and lot(job_id, "explore") < self.explore


def lot(job_id: str, what: str) -> float:
    """A number from 0 to below 1 that is a job's own, and tells nothing of any other."""
    drawn = hashlib.blake2b(f"{what}/{job_id}".encode(), digest_size=7).digest()
    return int.from_bytes(drawn) / 2.0**56


def turned(
    before: Routing | None,
    product_id: str,
    mode: Mode,
    *,
    by: str,
    now: datetime,
    share: float | None = None,
    explore: float | None = None,
) -> Routing:
    """A product's rollout as somebody sets it: a new comparison, and no alarm of the last one."""
    usual = {Mode.AB: AB_SHARE, Mode.ON: ON_SHARE}.get(mode, 0.0)
    explored = EXPLORED if mode in ACTING else 0.0
    return Routing(
        product_id=product_id,
        mode=mode,
        share=usual if share is None or mode not in ACTING else share,
        explore=explored if explore is None or mode is Mode.OFF else explore,
        trial=before.trial + 1 if before else 1,
        since=now,
        by=by,
        rev=before.rev + 1 if before else 1,
    )


def counted(routing: Routing, learned: Arm, usual: Arm, *, now: datetime) -> Routing:
    """The rollout with more tries on both sides; switched back when they show harm."""
    known = replace(
        routing,
        learned=routing.learned.plus(learned),
        usual=routing.usual.plus(usual),
        rev=routing.rev + 1,
    )
    guardrail = judged(known.learned, known.usual).tripped if known.mode in ACTING else None
    if guardrail is None:
        return known
    reason = f"{_HARM[guardrail]}: {_told(guardrail, known)}"
    # What was learned is recorded on, so that people can see whether it gets better.
    return replace(
        known,
        mode=Mode.SHADOW,
        share=0.0,
        explore=0.0,
        trial=known.trial + 1,
        tripped=Tripped(guardrail, routing.mode, now, reason),
    )


_HARM = {"success": "fewer jobs pass at once", "cost": "jobs cost more"}


def _told(guardrail: str, known: Routing) -> str:
    if guardrail == "success":
        sides = [(arm.passes, arm.tries) for arm in (known.learned, known.usual)]
        (passes, tries), (usual_passes, usual_tries) = sides
        return f"{passes} of {tries} where learned, {usual_passes} of {usual_tries} elsewhere"
    more = known.learned.log_nanos / known.learned.priced
    more -= known.usual.log_nanos / known.usual.priced
    return f"{math.expm1(more / 1000) * 100:.0f} % more than elsewhere"
