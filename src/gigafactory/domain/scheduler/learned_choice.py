"""Weighing the choices of one job: what is usual, what was learned, and what to explore."""

from collections.abc import Sequence
from typing import NamedTuple

from gigafactory.domain.insights.routing_model import Prediction
from gigafactory.domain.insights.routing_predictor import Guidance, RoutingPredictor
from gigafactory.domain.insights.routing_record import ExpectedOutcome, RoutingRecord
from gigafactory.domain.insights.routing_rollout import RoutingSide, hash_fraction
from gigafactory.domain.manifest.units import NANOS_PER_USD
from gigafactory.domain.scheduler.candidate import Candidate

CHOICES_MAX = 12
"""So many choices at most are explored among: the best of each engine first."""


class ChoiceOption(NamedTuple):
    """One engine on one factory that a job could have now."""

    candidate: Candidate
    """With the score that it has by the usual rules alone."""
    preference: int
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
        return (-self.score, usual.created, usual.cost_class, usual.factory_id, self.preference)

    @property
    def name(self) -> tuple[str, str]:
        """What tells it from the others."""
        return self.engine, self.candidate.factory_id


class LearnedChoice(NamedTuple):
    """What was decided for a job, and all that is to be recorded of it."""

    chosen: Candidate
    propensity: float
    routing: RoutingRecord


def choose_learned(
    predictor: RoutingPredictor, guidance: Guidance, options: Sequence[ChoiceOption]
) -> LearnedChoice:
    """Choose for a job among what it could have, which is something.

    By the usual rules, by what was learned, or, if the job explores, by its own lot: each of so
    many choices with the same probability.
    """
    usual = [option for option in options if option.preference == 0]
    heuristic = min(usual, key=lambda option: option.candidate)
    learned = min(options, key=lambda option: option.order)
    by_learned = guidance.side is RoutingSide.LEARNED
    chosen = learned if by_learned else heuristic
    explores = guidance.rollout.should_explore(chosen.candidate.job_id)
    drawn = _spread(options, by_learned=by_learned) if explores else []
    # With nothing to choose from, nothing is explored.
    drawn = drawn if len(drawn) > 1 else []
    if drawn:
        chosen = drawn[int(hash_fraction(chosen.candidate.job_id, "choice") * len(drawn))]
    told = list(dict.fromkeys([*drawn, chosen, heuristic, learned]))
    found = [
        guidance.predictions.predict(predictor.choice(guidance, *option.name)) for option in told
    ]
    routed = RoutingRecord(
        mode=guidance.rollout.mode,
        trial=guidance.rollout.trial,
        side=guidance.side,
        explored=bool(drawn),
        choices=tuple(map(_expected, told, found)),
        chosen=told.index(chosen),
        heuristic=told.index(heuristic),
        learned=told.index(learned),
        stands_on=found[told.index(chosen)].evidence_text,
    )
    return LearnedChoice(chosen.candidate, 1.0 / len(drawn) if drawn else 1.0, routed)


def _score(option: ChoiceOption) -> float:
    return option.candidate.score


def _spread(options: Sequence[ChoiceOption], *, by_learned: bool) -> list[ChoiceOption]:
    """The choices to explore among, in an order that nothing but their names decides."""
    ranked = sorted(options, key=lambda o: (-(o.score if by_learned else _score(o)), o.name))
    first: dict[str, ChoiceOption] = {}
    for option in ranked:
        first.setdefault(option.engine, option)
    kept = list(dict.fromkeys([*first.values(), *ranked]))[:CHOICES_MAX]
    return sorted(kept, key=lambda option: option.name)


def _expected(option: ChoiceOption, found: Prediction) -> ExpectedOutcome:
    engine, factory_id = option.name
    return ExpectedOutcome(
        engine=engine,
        factory_id=factory_id,
        success=round(found.success, 4),
        seconds=round(found.seconds, 1),
        cost_usd=round(found.cost_nano_usd / NANOS_PER_USD, 4),
    )
