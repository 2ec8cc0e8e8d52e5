"""Scheduling decisions: which factory gets which job, with the score breakdown."""

from typing import Any, Literal

import msgspec

from gigafactory.domain.insights.routing_record import RoutingRecord
from gigafactory.domain.job.job import Step
from gigafactory.domain.scheduler.scoring import ScoreTerm

RUNNERS_UP_MAX = 3


class RunnerUp(msgspec.Struct, frozen=True, rename="camel"):
    """Another factory that could have run the job."""

    factory_id: str
    engine: str | None
    score: float


class Decision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why this factory got this job; stored with the event and shown by `explain`."""

    mode: Literal["pull", "push"]
    score: float
    matched: tuple[str, ...]
    terms: dict[str, ScoreTerm]
    runners_up: tuple[RunnerUp, ...]
    rejections: dict[str, int]
    """The number of factories that were no candidates, by reason."""
    considered: int
    """The number of job classes that were considered."""
    propensity: float = 1.0
    """The probability of this choice; below 1 only for a job that explores."""
    routing: RoutingRecord | msgspec.UnsetType = msgspec.UNSET
    """The learned-routing part; absent when the product's rollout is off."""

    def to_json(self) -> dict[str, Any]:
        """Return the decision as JSON values, for the data of an event."""
        # Through JSON, so that it is equal before and after it is stored.
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return plain


class Pick(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One job picked for one factory, to be offered or granted with these seats."""

    job_id: str
    factory_id: str
    engine: str | None
    step: Step
    seats: tuple[str, ...]
    decision: Decision
