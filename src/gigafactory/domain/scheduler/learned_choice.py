"""Weighing the choices of one job: what is usual, what was learned, and what to explore."""

from collections.abc import Sequence
from typing import NamedTuple

from gigafactory.domain.insights.routing_model import Prediction
from gigafactory.domain.insights.routing_predictor import Guidance, Guide
from gigafactory.domain.insights.routing_record import Expected, Routed
from gigafactory.domain.insights.routing_rollout import Side, lot
from gigafactory.domain.manifest.units import NANOS_PER_USD
from gigafactory.domain.scheduler.candidate import Candidate

CHOICES_MAX = 12
"""So many choices at most are explored among: the best of each engine first."""


class Option(NamedTuple):
    """One engine on one factory that a job could have now."""

    candidate: Candidate
    """With the score that it has by the usual rules alone."""
    place: int
    """Of the engine, in the order in which the job would have them there."""
    score: float
    """With what was learned."""

    @property
    def engine(self) -> str:
        """Its engine; only runs are weighed, and all of them have one."""
        assert self.candidate.choice.engine is not None, "what is weighed is a run"
        return self.candidate.choice.engine

    @property
    def order(self) -> tuple[float, float, int, str, int]:
        """The lesser is the better one by what was learned; ties go as they usually do."""
        usual = self.candidate
        return (-self.score, usual.created, usual.cost_class, usual.factory_id, self.place)

    @property
    def name(self) -> tuple[str, str]:
        """What tells it from the others."""
        return self.engine, self.candidate.factory_id


class Weighed(NamedTuple):
    """What was decided for a job, and all that is to be recorded of it."""

    chosen: Candidate
    propensity: float
    routed: Routed


def weigh(guide: Guide, guidance: Guidance, options: Sequence[Option]) -> Weighed:
    """Choose for a job among what it could have, which is something.

    By the usual rules, by what was learned, or, if the job explores, by its own lot: each of so
    many choices with the same probability.
    """
    usual = [option for option in options if option.place == 0]
    heuristic = min(usual, key=lambda option: option.candidate)
    learned = min(options, key=lambda option: option.order)
    by_learned = guidance.side is Side.LEARNED
    chosen = learned if by_learned else heuristic
    explores = guidance.routing.explores(chosen.candidate.job_id)
    drawn = _spread(options, by_learned=by_learned) if explores else []
    # With nothing to choose from, nothing is explored.
    drawn = drawn if len(drawn) > 1 else []
    if drawn:
        chosen = drawn[int(lot(chosen.candidate.job_id, "choice") * len(drawn))]
    told = list(dict.fromkeys([*drawn, chosen, heuristic, learned]))
    found = [guidance.prospects.predict(guide.choice(guidance, *option.name)) for option in told]
    routed = Routed(
        mode=guidance.routing.mode,
        trial=guidance.routing.trial,
        side=guidance.side,
        explored=bool(drawn),
        choices=tuple(map(_expected, told, found)),
        chosen=told.index(chosen),
        heuristic=told.index(heuristic),
        learned=told.index(learned),
        stands_on=found[told.index(chosen)].told,
    )
    return Weighed(chosen.candidate, 1.0 / len(drawn) if drawn else 1.0, routed)


def _score(option: Option) -> float:
    return option.candidate.score


def _spread(options: Sequence[Option], *, by_learned: bool) -> list[Option]:
    """The choices to explore among, in an order that nothing but their names decides."""
    ranked = sorted(options, key=lambda o: (-(o.score if by_learned else _score(o)), o.name))
    first: dict[str, Option] = {}
    for option in ranked:
        first.setdefault(option.engine, option)
    kept = list(dict.fromkeys([*first.values(), *ranked]))[:CHOICES_MAX]
    return sorted(kept, key=lambda option: option.name)


def _expected(option: Option, found: Prediction) -> Expected:
    engine, factory_id = option.name
    return Expected(
        engine=engine,
        factory_id=factory_id,
        success=round(found.success, 4),
        seconds=round(found.seconds, 1),
        cost_usd=round(found.cost_nano_usd / NANOS_PER_USD, 4),
    )
