"""Choose engine and factory for one job by the heuristic, the learned model or exploration."""

from collections.abc import Sequence
from typing import NamedTuple

from gigafactory.domain.insights.routing_model import Prediction
from gigafactory.domain.insights.routing_predictor import Guidance, RoutingPredictor
from gigafactory.domain.insights.routing_record import ExpectedOutcome, RoutingRecord
from gigafactory.domain.insights.routing_rollout import RoutingSide, hash_fraction
from gigafactory.domain.manifest.units import NANOS_PER_USD
from gigafactory.domain.scheduler.candidate import Candidate

CHOICES_MAX = 12
"""Maximum number of choices to explore: the best of each engine first."""


class ChoiceOption(NamedTuple):
    """One engine on one factory that a job could use now."""

    candidate: Candidate
    """The candidate with its heuristic score."""
    preference: int
    """The index of the engine in the job's order of preference; 0 is the most preferred."""
    score: float
    """The score including the learned term."""

    @property
    def engine(self) -> str:
        """The engine; only runs are options, and every run has one."""
        assert self.candidate.choice.engine is not None, "an option is a run"
        return self.candidate.choice.engine

    @property
    def order(self) -> tuple[float, float, int, str, int]:
        """Sort key: best learned score first, ties as in the heuristic order."""
        usual = self.candidate
        return (-self.score, usual.created, usual.cost_class, usual.factory_id, self.preference)

    @property
    def name(self) -> tuple[str, str]:
        """The engine and the factory id, which identify the option."""
        return self.engine, self.candidate.factory_id


class LearnedChoice(NamedTuple):
    """The choice made for a job, with its probability and its routing record."""

    chosen: Candidate
    propensity: float
    routing: RoutingRecord


def choose_learned(
    predictor: RoutingPredictor, guidance: Guidance, options: Sequence[ChoiceOption]
) -> LearnedChoice:
    """Choose one of the options, of which there is at least one.

    The choice is by heuristic, by learned score, or, if the job explores, uniformly at random.
    """
    usual = [option for option in options if option.preference == 0]
    heuristic = min(usual, key=lambda option: option.candidate)
    learned = min(options, key=lambda option: option.order)
    by_learned = guidance.side is RoutingSide.LEARNED
    chosen = learned if by_learned else heuristic
    explores = guidance.rollout.should_explore(chosen.candidate.job_id)
    candidates = _spread(options, by_learned=by_learned) if explores else []
    # With a single option there is nothing to explore.
    candidates = candidates if len(candidates) > 1 else []
    if candidates:
        chosen = candidates[int(hash_fraction(chosen.candidate.job_id, "choice") * len(candidates))]
    recorded = list(dict.fromkeys([*candidates, chosen, heuristic, learned]))
    scored = [
        guidance.predictions.predict(predictor.choice(guidance, *option.name))
        for option in recorded
    ]
    routed = RoutingRecord(
        mode=guidance.rollout.mode,
        trial=guidance.rollout.trial,
        side=guidance.side,
        explored=bool(candidates),
        choices=tuple(map(_expected, recorded, scored)),
        chosen=recorded.index(chosen),
        heuristic=recorded.index(heuristic),
        learned=recorded.index(learned),
        stands_on=scored[recorded.index(chosen)].evidence_text,
    )
    return LearnedChoice(chosen.candidate, 1.0 / len(candidates) if candidates else 1.0, routed)


def _score(option: ChoiceOption) -> float:
    return option.candidate.score


def _spread(options: Sequence[ChoiceOption], *, by_learned: bool) -> list[ChoiceOption]:
    """Return the options to explore, sorted by name."""
    ranked = sorted(options, key=lambda o: (-(o.score if by_learned else _score(o)), o.name))
    first: dict[str, ChoiceOption] = {}
    for option in ranked:
        first.setdefault(option.engine, option)
    choices = list(dict.fromkeys([*first.values(), *ranked]))[:CHOICES_MAX]
    return sorted(choices, key=lambda option: option.name)


def _expected(option: ChoiceOption, prediction: Prediction) -> ExpectedOutcome:
    engine, factory_id = option.name
    return ExpectedOutcome(
        engine=engine,
        factory_id=factory_id,
        success=round(prediction.success, 4),
        seconds=round(prediction.seconds, 1),
        cost_usd=round(prediction.cost_nano_usd / NANOS_PER_USD, 4),
    )
