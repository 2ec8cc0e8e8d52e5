"""Episodes: what came of jobs that explored, kept to judge other ways of choosing by."""

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
    """One job that explored: its choices, which one it had, and how its first try came out."""

    kind: ClassVar[str] = "episode"

    product_id: str
    job_id: str
    routing: RoutingRecord = msgspec.field(name="routed")
    propensity: float
    """The probability of the choice that it had."""
    observation: Observation = msgspec.field(name="lesson")
    expires_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """In the order in which the jobs of a product came."""
        return episode_key(self.product_id, self.job_id)


def episode_key(product_id: str, job_id: str) -> str:
    """Where the episode of a job is kept."""
    return f"{product_id}/{job_id}"


class TrialStep(NamedTuple):
    """What a step of a routed job's first try adds."""

    product_id: str
    job_id: str
    day: str
    routing: RoutingRecord
    propensity: float
    updates: tuple[CellUpdate, ...]


class TrialBatch:
    """What many slips add to rollouts and episodes, ready to be kept in one commit."""

    def __init__(self) -> None:
        self._episodes: dict[str, TrialStep] = {}
        self._sums: dict[str, Observation] = {}
        self._arms: dict[str, list[tuple[RoutingRecord, TrialArm]]] = {}

    @property
    def episodes(self) -> Collection[str]:
        """The episodes that are told more of."""
        return self._episodes.keys()

    @property
    def products(self) -> Collection[str]:
        """The products whose rollouts are told more of."""
        return self._arms.keys()

    def add(self, tried: TrialStep) -> None:
        """Have this counted too: who explores is on neither side of the comparison."""
        lesson = NO_OBSERVATION
        for told in tried.updates:
            lesson = add_observations(lesson, told.observation)
        if tried.routing.explored:
            key = episode_key(tried.product_id, tried.job_id)
            self._episodes[key] = tried
            self._sums[key] = add_observations(self._sums.get(key, NO_OBSERVATION), lesson)
        else:
            arm = TrialArm(
                tries=lesson.tries,
                passes=lesson.passes,
                priced=lesson.priced,
                log_nanos=lesson.log_nanos,
                log_nanos_squared=lesson.log_nanos_squared,
            )
            self._arms.setdefault(tried.product_id, []).append((tried.routing, arm))

    def save_episodes(self, known: Mapping[str, Episode]) -> Iterator[RecordChange]:
        """The writes that add to the episodes."""
        for key, tried in sorted(self._episodes.items()):
            yield RecordChange(
                before=known.get(key), after=_episode(known.get(key), tried, self._sums[key])
            )

    def update_rollouts(
        self, known: Mapping[str, RoutingRollout], now: datetime
    ) -> Iterator[tuple[RoutingRollout, RoutingRollout]]:
        """The rollouts as they were and as they are with more tries on both sides.

        What was decided under another setting is not compared.
        """
        for product_id, routing in sorted(known.items()):
            sides = {side: TrialArm() for side in RoutingSide}
            for routed, arm in self._arms[product_id]:
                if routed.trial == routing.trial:
                    sides[routed.side] = sides[routed.side].add(arm)
            learned, usual = sides[RoutingSide.LEARNED], sides[RoutingSide.HEURISTIC]
            if learned != TrialArm() or usual != TrialArm():
                yield routing, add_trials(routing, learned, usual, now=now)


def _episode(known: Episode | None, tried: TrialStep, lesson: Observation) -> Episode:
    if known is not None:
        return replace(
            known, observation=add_observations(known.observation, lesson), rev=known.rev + 1
        )
    begun = datetime.combine(date.fromisoformat(tried.day), time(), UTC)
    return Episode(
        product_id=tried.product_id,
        job_id=tried.job_id,
        routing=tried.routing,
        propensity=tried.propensity,
        observation=lesson,
        expires_at=begun + KEPT_FOR,
    )
