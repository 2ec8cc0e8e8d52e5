"""Exploration: stored outcomes of jobs with a random choice, for off-policy evaluation."""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import ClassVar, NamedTuple

import msgspec
from msgspec.structs import replace

from gigafactory.domain.insights.guardrail import TrialArm
from gigafactory.domain.insights.observation import (
    NO_OBSERVATION,
    CellUpdate,
    Observation,
    add_observations,
)
from gigafactory.domain.insights.routing_record import RoutingRecord
from gigafactory.domain.insights.routing_rollout import RoutingRollout, RoutingSide, add_trials
from gigafactory.domain.job.change import RecordChange

KEPT_FOR = timedelta(days=180)


class Episode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One job that explored: its options, the choice made, and the outcome of its first attempt."""

    kind: ClassVar[str] = "episode"

    product_id: str
    job_id: str
    routing: RoutingRecord = msgspec.field(name="routed")
    propensity: float
    """The probability of the choice made."""
    observation: Observation = msgspec.field(name="lesson")
    expires_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """The record key, which sorts by product and job."""
        return episode_key(self.product_id, self.job_id)


def episode_key(product_id: str, job_id: str) -> str:
    """Return the record key of a job's episode."""
    return f"{product_id}/{job_id}"


class TrialStep(NamedTuple):
    """The observations that one update of a routed job's first attempt adds."""

    product_id: str
    job_id: str
    day: str
    routing: RoutingRecord
    propensity: float
    updates: tuple[CellUpdate, ...]


class TrialBatch:
    """The sum of many trial steps, to be added to rollouts and episodes in one commit."""

    def __init__(self) -> None:
        self._episodes: dict[str, TrialStep] = {}
        self._sums: dict[str, Observation] = {}
        self._arms: dict[str, list[tuple[RoutingRecord, TrialArm]]] = {}

    @property
    def episodes(self) -> Collection[str]:
        """The keys of the episodes to update."""
        return self._episodes.keys()

    @property
    def products(self) -> Collection[str]:
        """The products whose rollouts are to be updated."""
        return self._arms.keys()

    def add(self, step: TrialStep) -> None:
        """Add a trial step; a job that explores counts for neither side of the comparison."""
        observation = NO_OBSERVATION
        for update in step.updates:
            observation = add_observations(observation, update.observation)
        if step.routing.explored:
            key = episode_key(step.product_id, step.job_id)
            self._episodes[key] = step
            self._sums[key] = add_observations(self._sums.get(key, NO_OBSERVATION), observation)
        else:
            arm = TrialArm(
                tries=observation.tries,
                passes=observation.passes,
                priced=observation.priced,
                log_nanos=observation.log_nanos,
                log_nanos_squared=observation.log_nanos_squared,
            )
            self._arms.setdefault(step.product_id, []).append((step.routing, arm))

    def save_episodes(self, stored: Mapping[str, Episode]) -> Iterator[RecordChange]:
        """Yield the writes that update the episodes."""
        for key, step in sorted(self._episodes.items()):
            yield RecordChange(
                before=stored.get(key), after=_episode(stored.get(key), step, self._sums[key])
            )

    def update_rollouts(
        self, stored: Mapping[str, RoutingRollout], now: datetime
    ) -> Iterator[tuple[RoutingRollout, RoutingRollout]]:
        """Yield each rollout before and after adding the trials of both sides.

        Decisions made under an earlier setting of the rollout are ignored.
        """
        for product_id, routing in sorted(stored.items()):
            sides = {side: TrialArm() for side in RoutingSide}
            for routed, arm in self._arms[product_id]:
                if routed.trial == routing.trial:
                    sides[routed.side] = sides[routed.side].add(arm)
            learned, usual = sides[RoutingSide.LEARNED], sides[RoutingSide.HEURISTIC]
            if learned != TrialArm() or usual != TrialArm():
                yield routing, add_trials(routing, learned, usual, now=now)


def _episode(stored: Episode | None, step: TrialStep, observation: Observation) -> Episode:
    if stored is not None:
        total = add_observations(stored.observation, observation)
        return replace(stored, observation=total, rev=stored.rev + 1)
    start = datetime.combine(date.fromisoformat(step.day), time(), UTC)
    return Episode(
        product_id=step.product_id,
        job_id=step.job_id,
        routing=step.routing,
        propensity=step.propensity,
        observation=observation,
        expires_at=start + KEPT_FOR,
    )
