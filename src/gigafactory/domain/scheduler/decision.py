"""What the scheduler answers with: who gets which job, and the whole breakdown of why."""

from typing import Any, Literal

import msgspec

from gigafactory.domain.insights.routing_record import RoutingRecord
from gigafactory.domain.job.job import Step
from gigafactory.domain.scheduler.scoring import ScoreTerm

RUNNERS_UP_MAX = 3


class RunnerUp(msgspec.Struct, frozen=True, rename="camel"):
    """A factory that could have had the job too."""

    factory_id: str
    engine: str | None
    score: float


class Decision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why this factory got this job: kept with the event, and shown to whoever asks."""

    mode: Literal["pull", "push"]
    score: float
    matched: tuple[str, ...]
    terms: dict[str, ScoreTerm]
    runners_up: tuple[RunnerUp, ...]
    rejections: dict[str, int]
    """How many factories were no candidates, for which reason."""
    considered: int
    """How many classes of waiting jobs were looked at."""
    propensity: float = 1.0
    """The probability that this choice had; below 1 only where one explores."""
    routing: RoutingRecord | msgspec.UnsetType = msgspec.UNSET
    """What was learned of the choices; not there where the product does not want to know."""

    def to_json(self) -> dict[str, Any]:
        """Give it as plain values, ready for the data of an event."""
        # By way of JSON, so that it reads the same before it is stored and after.
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return plain


class Pick(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One job for one factory: what to offer, or to grant with these seats."""

    job_id: str
    factory_id: str
    engine: str | None
    step: Step
    seats: tuple[str, ...]
    decision: Decision
