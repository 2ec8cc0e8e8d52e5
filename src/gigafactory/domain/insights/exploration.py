"""Episodes: what came of jobs that explored, kept to judge other ways of choosing by."""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import ClassVar, NamedTuple

import msgspec
from msgspec.structs import replace

from gigafactory.domain.insights.guardrail import Arm
from gigafactory.domain.insights.observation import NO_LESSON, Lesson, Told, plus
from gigafactory.domain.insights.routing_record import Routed
from gigafactory.domain.insights.routing_rollout import Routing, Side, counted
from gigafactory.domain.job.change import RecordChange

KEPT_FOR = timedelta(days=180)


class Episode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One job that explored: its choices, which one it had, and how its first try came out."""

    kind: ClassVar[str] = "episode"

    product_id: str
    job_id: str
    routed: Routed
    propensity: float
    """The probability of the choice that it had."""
    lesson: Lesson
    expires_at: datetime
    rev: int = 1

    @property
    def key(self) -> str:
        """In the order in which the jobs of a product came."""
        return episode_key(self.product_id, self.job_id)


def episode_key(product_id: str, job_id: str) -> str:
    """Where the episode of a job is kept."""
    return f"{product_id}/{job_id}"


class Tried(NamedTuple):
    """What a step of a routed job's first try adds."""

    product_id: str
    job_id: str
    day: str
    routed: Routed
    propensity: float
    told: tuple[Told, ...]


class Trials:
    """What many slips add to rollouts and episodes, ready to be kept in one commit."""

    def __init__(self) -> None:
        self._episodes: dict[str, Tried] = {}
        self._sums: dict[str, Lesson] = {}
        self._arms: dict[str, list[tuple[Routed, Arm]]] = {}

    @property
    def episodes(self) -> Collection[str]:
        """The episodes that are told more of."""
        return self._episodes.keys()

    @property
    def products(self) -> Collection[str]:
        """The products whose rollouts are told more of."""
        return self._arms.keys()

    def add(self, tried: Tried) -> None:
        """Have this counted too: who explores is on neither side of the comparison."""
        lesson = NO_LESSON
        for told in tried.told:
            lesson = plus(lesson, told.lesson)
        if tried.routed.explored:
            key = episode_key(tried.product_id, tried.job_id)
            self._episodes[key] = tried
            self._sums[key] = plus(self._sums.get(key, NO_LESSON), lesson)
        else:
            arm = Arm(
                tries=lesson.tries,
                passes=lesson.passes,
                priced=lesson.priced,
                log_nanos=lesson.log_nanos,
                log_nanos_squared=lesson.log_nanos_squared,
            )
            self._arms.setdefault(tried.product_id, []).append((tried.routed, arm))

    def kept(self, known: Mapping[str, Episode]) -> Iterator[RecordChange]:
        """The writes that add to the episodes."""
        for key, tried in sorted(self._episodes.items()):
            yield RecordChange(
                before=known.get(key), after=_episode(known.get(key), tried, self._sums[key])
            )

    def judged(
        self, known: Mapping[str, Routing], now: datetime
    ) -> Iterator[tuple[Routing, Routing]]:
        """The rollouts as they were and as they are with more tries on both sides.

        What was decided under another setting is not compared.
        """
        for product_id, routing in sorted(known.items()):
            sides = {side: Arm() for side in Side}
            for routed, arm in self._arms[product_id]:
                if routed.trial == routing.trial:
                    sides[routed.side] = sides[routed.side].plus(arm)
            learned, usual = sides[Side.LEARNED], sides[Side.HEURISTIC]
            if learned != Arm() or usual != Arm():
                yield routing, counted(routing, learned, usual, now=now)


def _episode(known: Episode | None, tried: Tried, lesson: Lesson) -> Episode:
    if known is not None:
        return replace(known, lesson=plus(known.lesson, lesson), rev=known.rev + 1)
    begun = datetime.combine(date.fromisoformat(tried.day), time(), UTC)
    return Episode(
        product_id=tried.product_id,
        job_id=tried.job_id,
        routed=tried.routed,
        propensity=tried.propensity,
        lesson=lesson,
        expires_at=begun + KEPT_FOR,
    )
